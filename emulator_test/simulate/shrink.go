package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
)

// attempts is how often a smaller episode is tried: not every one that can fail does so at once.
const attempts = 3

// leastTransactions of an episode.
const leastTransactions = 50

// shrinking looks for a small episode that fails as well as one that has failed.
type shrinking struct {
	flags // of the smallest so far
	told  told
	ends  time.Time
}

// shrink tries fewer transactions, processes and faults, each change by itself, until none of them
// fails or the time is up, and prints the smallest.
func (f *flags) shrink(ctx context.Context, out io.Writer, failed told) {
	s := &shrinking{flags: *f, told: failed, ends: time.Now().Add(f.shrinkFor)}
	s.episode = failed.Episode
	again := 0
	for range attempts {
		if s.fails(ctx, s.flags) {
			again++
		}
	}
	fmt.Fprintf(out, "it failed again in %d of %d repetitions\n", again, attempts)
	for smaller := true; smaller; {
		smaller = false
		for _, change := range s.changes() {
			next := s.flags
			change(&next)
			smaller = s.try(ctx, next) || smaller
		}
	}
	fmt.Fprintf(out, "the smallest that fails: %s\n%s", s.again(), s.told.Report)
}

// changes make an episode smaller.
func (s *shrinking) changes() (all []func(*flags)) {
	if s.size/2 >= leastTransactions {
		all = append(all, func(f *flags) { f.size /= 2 })
	}
	for _, n := range []*int{&s.clients, &s.sessions, &s.workers} {
		if *n != 1 {
			all = append(all, s.setsOne(n))
		}
	}
	var left []string
	for _, fault := range simulation.EveryFault() {
		if s.told.Report.Faults[fault] > 0 && !slices.Contains(s.without, fault) {
			left = append(left, fault)
		}
	}
	for _, faults := range halves(left) {
		all = append(all, func(f *flags) { f.without = append(slices.Clone(f.without), faults...) })
	}
	return all
}

// setsOne sets that number of processes to 1.
func (s *shrinking) setsOne(n *int) func(*flags) {
	switch n {
	case &s.clients:
		return func(f *flags) { f.clients = 1 }
	case &s.sessions:
		return func(f *flags) { f.sessions = 1 }
	}
	return func(f *flags) { f.workers = 1 }
}

// halves are the halves of a list, their halves, and so on.
func halves(list []string) (all [][]string) {
	if len(list) == 0 {
		return nil
	}
	if len(list) == 1 {
		return [][]string{list}
	}
	first, second := list[:len(list)/2], list[len(list)/2:]
	return slices.Concat([][]string{first, second}, halves(first), halves(second))
}

// try makes an episode the smallest if it fails.
func (s *shrinking) try(ctx context.Context, next flags) bool {
	for range attempts {
		if s.fails(ctx, next) {
			s.flags = next
			return true
		}
	}
	return false
}

// fails runs an episode.
func (s *shrinking) fails(ctx context.Context, f flags) (failed bool) {
	if ctx.Err() != nil || time.Now().After(s.ends) {
		return false
	}
	o := f.process(ctx, f.episode)
	if failed = ctx.Err() == nil && (o.Error != "" || o.Report.Failed()); failed {
		s.told = o
	}
	return failed
}

// again is the command that runs an episode once more.
func (f *flags) again() string {
	var b strings.Builder
	fmt.Fprintf(&b, "go run ./emulator_test/simulate --seed %d --size %d --faults %s --episode %d", f.seed, f.size, f.faults, f.episode)
	for _, n := range []struct {
		name string
		n    int
	}{{"clients", f.clients}, {"sessions", f.sessions}, {"workers", f.workers}} {
		if n.n > 0 {
			fmt.Fprintf(&b, " --%s %d", n.name, n.n)
		}
	}
	for _, fault := range f.without {
		fmt.Fprintf(&b, " --without %q", fault)
	}
	return b.String()
}
