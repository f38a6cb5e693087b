package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
)

// A run names the kinds of faults that never happened.
func TestFaultsThatNeverHappened(t *testing.T) {
	t.Parallel()
	every := simulation.EveryFault()
	var out bytes.Buffer
	run := &total{flags: &flags{faults: string(simulation.Absurd), without: every[1:2]}, out: &out}
	run.add(told{Report: &simulation.Report{History: &history.Report{}, Faults: map[string]int{every[0]: 1}}})
	if got := run.never(); !slices.Equal(got, every[2:]) {
		t.Errorf("never happened: %q, want %q", got, every[2:])
	}
	run.print()
	if want := "never happened: " + strings.Join(every[2:], ", "); !strings.Contains(out.String(), want) {
		t.Errorf("%s\nlacks %q", &out, want)
	}
	run.flags.faults = string(simulation.None)
	if got := run.never(); len(got) > 0 {
		t.Errorf("without faults %q should have happened", got)
	}
}
