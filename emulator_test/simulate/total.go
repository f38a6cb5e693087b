package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
)

// total is what the episodes of a run tell together.
type total struct {
	flags   *flags
	out     io.Writer
	started time.Time

	mu                         sync.Mutex
	next                       uint64 // episode
	episodes, failed           int
	first                      *told // that failed
	judged, committed, aborted int
	resolved, runs, together   int
	kinds                      map[string]workload.Count
	faults                     map[string]int
	virtual                    time.Duration
	digest                     uint64 // the sum of those of the episodes
}

// begin is the next episode, unless there are enough.
func (t *total) begin() (episode uint64, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.flags
	episode = t.next
	t.next++
	switch {
	case f.one:
		return episode, episode == f.episode
	case t.failed >= f.failures || f.transactions > 0 && t.judged >= f.transactions:
		return 0, false
	}
	return episode, episode == f.episode || time.Since(t.started) < f.duration
}

// add adds what became of an episode.
func (t *total) add(o told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.episodes++
	r := o.Report
	if o.Error != "" || r.Failed() {
		if t.failed++; t.first == nil && o.Error == "" {
			t.first = &o
		}
		fmt.Fprintf(t.out, "episode %d failed: %s\n%s", o.Episode, o.Error, r)
		if t.flags.notes || t.flags.trace != "" {
			for _, n := range r.Notes {
				fmt.Fprintln(t.out, n)
			}
		}
		one := *t.flags
		one.episode = o.Episode
		fmt.Fprintf(t.out, "again: %s\n", one.again())
	}
	if t.failed == t.flags.failures {
		fmt.Fprintln(t.out, "so many failures are enough")
	}
	t.judged += r.History.Transactions
	t.committed += r.History.Committed
	t.aborted += r.History.Aborted
	t.resolved += r.History.Resolved
	t.runs += r.History.Runs
	t.together += r.History.Together
	t.virtual += r.Virtual
	t.digest += r.Digest
	if t.kinds == nil {
		t.kinds, t.faults = map[string]workload.Count{}, map[string]int{}
	}
	for k, n := range r.Kinds {
		c := t.kinds[k]
		t.kinds[k] = workload.Count{Committed: c.Committed + n.Committed, Aborted: c.Aborted + n.Aborted, Unknown: c.Unknown + n.Unknown, Read: c.Read + n.Read}
	}
	for f, n := range r.Faults {
		t.faults[f] += n
	}
}

// never names the kinds of faults that should have happened, and did not.
func (t *total) never() (names []string) {
	if simulation.Faults(t.flags.faults) == simulation.None {
		return nil
	}
	for _, f := range simulation.EveryFault() {
		if t.faults[f] == 0 && !slices.Contains(t.flags.without, f) {
			names = append(names, f)
		}
	}
	return names
}

// print prints the sums.
func (t *total) print() {
	for _, k := range slices.Sorted(maps.Keys(t.kinds)) {
		c := t.kinds[k]
		fmt.Fprintf(t.out, "  %-14s %8d committed %8d aborted %6d unknown %8d read\n", k, c.Committed, c.Aborted, c.Unknown, c.Read)
	}
	for _, f := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(t.out, "  %8d %s\n", t.faults[f], f)
	}
	if never := t.never(); len(never) > 0 {
		fmt.Fprintf(t.out, "  never happened: %s\n", strings.Join(never, ", "))
	}
	took := time.Since(t.started)
	fmt.Fprintf(t.out, "seed %d, faults %s: %d episodes, %d failed; %d transactions judged, %d committed (%d found to be), %d aborted, %d runs (%d with another); "+
		"virtual %v, real %v, %.0f a second; digest %016x\n", t.flags.seed, simulation.Faults(t.flags.faults), t.episodes, t.failed, t.judged, t.committed, t.resolved, t.aborted, t.runs, t.together,
		t.virtual.Round(time.Second), took.Round(time.Second), float64(t.judged)/took.Seconds(), t.digest)
}
