package main

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// TestEditsFitTheLibrary: each edit finds its place in the library of the Go version in use.
func TestEditsFitTheLibrary(t *testing.T) {
	if _, err := new(flags).library(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestSeedRepeatsAnEpisode: what a seed decides happens again, whatever else the machine does: of
// 12 repetitions, beside each other, at most one differs from the first. All but three of what
// processes do beside transactions is part of them.
func TestSeedRepeatsAnEpisode(t *testing.T) {
	fixture.Slow(t)
	f := &flags{seed: 77, size: 1000, scheduler: seeded, stuckAfter: 1 << 40}
	f.buildOnly = filepath.Join(t.TempDir(), "program")
	var err error
	if f.program, err = f.build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	differ, never := 0, simulation.EveryDeed()
	episode := uint64(0)
	for ; episode < 4 || len(never) > 3 && episode < 12; episode++ { // the last three need longer episodes
		f.faults = string([]simulation.Faults{simulation.Absurd, simulation.Some}[episode%2])
		runs := make([]told, 4)
		var running sync.WaitGroup
		for i := range runs {
			running.Go(func() { runs[i] = f.process(t.Context(), episode) })
		}
		running.Wait()
		for _, o := range runs {
			if o.Error != "" {
				t.Fatalf("episode %d: %s", episode, o.Error)
			}
			if o.Report.Digest != runs[0].Report.Digest {
				differ++
			}
		}
		never = slices.DeleteFunc(never, func(what string) bool { return runs[0].Report.Faults[what] > 0 })
	}
	if repetitions := 3 * int(episode); differ > repetitions/12 {
		t.Errorf("%d of %d repetitions differ from the first", differ, repetitions)
	}
	if len(never) > 3 {
		t.Errorf("never happened: %q", never)
	}
}
