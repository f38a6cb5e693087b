package simulate

import (
	"path/filepath"
	"testing"

	"github.com/gopercolator/percolator/internal/simulation"
)

// TestEditsFitTheLibrary: each edit finds its place in the library of the Go version in use.
func TestEditsFitTheLibrary(t *testing.T) {
	if _, err := new(flags).library(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestRepeats: what a seed decides happens again, whatever else the machine does: of 12 repetitions
// of absurd episodes, at most one differs from the first.
func TestRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program of its own")
	}
	f := &flags{seed: 77, size: 1000, faults: string(simulation.Absurd), scheduler: seeded}
	f.buildOnly = filepath.Join(t.TempDir(), "program")
	var err error
	if f.program, err = f.build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	differ := 0
	for episode := range uint64(4) {
		var first *simulation.Report
		for range 4 {
			o := f.process(t.Context(), episode)
			if o.Error != "" {
				t.Fatalf("episode %d: %s", episode, o.Error)
			}
			if first == nil {
				first = o.Report
			}
			if o.Report.Digest != first.Digest {
				differ++
			}
		}
	}
	if differ > 1 {
		t.Errorf("%d of 12 repetitions differ from the first", differ)
	}
}
