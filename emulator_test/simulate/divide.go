package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
)

// divide runs episodes, each in a process of its own: what happens in one then depends on nothing
// that happened before, and its memory ends with it.
func (f *flags) divide(ctx context.Context, out io.Writer) error {
	if f.jobs < 1 || f.size < 1 {
		return errors.New("--jobs and --size must be positive")
	}
	dir, err := os.MkdirTemp("", "percolator-simulate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if f.program == "" {
		if f.program, err = f.build(ctx, dir); err != nil {
			return err
		}
	}
	t := &total{flags: f, out: out, started: time.Now(), next: f.episode}
	var working sync.WaitGroup
	for range f.jobs {
		working.Go(func() {
			for episode, more := t.begin(); more && ctx.Err() == nil; episode, more = t.begin() {
				if o := f.process(ctx, episode); ctx.Err() == nil {
					t.add(o)
				}
			}
		})
	}
	working.Wait()
	t.print()
	if first := t.first; first != nil && f.shrinkFor > 0 {
		f.shrink(ctx, out, *first)
	}
	if t.failed > 0 {
		return fmt.Errorf("%d of %d episodes failed", t.failed, t.episodes)
	}
	if never := t.never(); t.judged >= enoughForEveryFault && len(never) > 0 {
		return fmt.Errorf("faults never happened: %s", strings.Join(never, ", "))
	}
	return ctx.Err()
}

// enoughForEveryFault are so many judged transactions that every kind of fault has happened.
const enoughForEveryFault = 300_000

// process runs an episode in a process.
func (f *flags) process(ctx context.Context, episode uint64) told {
	o := told{Episode: episode}
	var said bytes.Buffer
	err := f.start(ctx, &o, &said)
	if o.Report == nil {
		o.Report = &simulation.Report{History: &history.Report{}}
	}
	if err != nil {
		o.Error = fmt.Sprintf("%v: %s", err, said.String())
	}
	o.Report.Config = f.config(episode)
	return o
}

// start starts that process, and waits for what it tells and for its end.
func (f *flags) start(ctx context.Context, o *told, stderr io.Writer) error {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	cmd := exec.CommandContext(ctx, f.program, f.arguments(o.Episode)...)
	cmd.Env = f.environ()
	cmd.ExtraFiles = []*os.File{to}
	cmd.Stderr = stderr
	err = cmd.Start()
	_ = to.Close()
	if err != nil {
		return err
	}
	stuck := time.AfterFunc(f.stuckAfter, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer stuck.Stop()
	decoded := json.NewDecoder(from).Decode(o)
	return cmp.Or(cmd.Wait(), decoded)
}

// mutant names what selects a mutant in a program that was built with mutants.
const mutant = "PERCOLATOR_MUTANT"

// environ is the environment of a process.
func (f *flags) environ() []string {
	if f.scheduler == ofGo {
		return append(os.Environ(), repeats...)
	}
	if m, ok := os.LookupEnv(mutant); ok {
		return append(slices.Clone(repeats), mutant+"="+m)
	}
	return repeats
}

// repeats is the environment of a process, and all of it but a mutant: what it holds takes memory.
var repeats = []string{
	"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1",
	"TZ=", // reads no file
}

// arguments are those of a process.
func (f *flags) arguments(episode uint64) []string {
	args := []string{"--job", "--seed", fmt.Sprint(f.seed), "--episode", fmt.Sprint(episode), "--size", strconv.Itoa(f.size), "--faults", f.faults,
		"--clients", strconv.Itoa(f.clients), "--sessions", strconv.Itoa(f.sessions), "--workers", strconv.Itoa(f.workers)}
	for _, fault := range f.without {
		args = append(args, "--without", fault)
	}
	if f.trace != "" {
		args = append(args, "--trace", f.trace)
	}
	if f.cpuProfile != "" {
		args = append(args, "--cpuprofile", fmt.Sprintf("%s.%d", f.cpuProfile, episode))
	}
	return args
}
