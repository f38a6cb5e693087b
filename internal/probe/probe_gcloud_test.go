package probe

import (
	"os"
	"testing"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// TestGcloudEmulator: what gcloud's emulator does not have is found, and nothing else.
func TestGcloudEmulator(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	path, err := emulators.Find(os.Getenv)
	if err != nil {
		t.Skip(err)
	}
	e, err := emulators.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	s := newSite(t)
	s.effort = &lineEffort
	s.Options, s.SeveralClusters = emulator.Connect(e.Addr), ""
	levels, r := s.levels(t)
	for _, l := range r.Results {
		want := health.OK
		switch l.Name {
		case "sizes", "missing-family": // it has no limits, and applies mutations up to the first bad one
			want = health.Failed
		case "identities", "cluster-routing", "progress", "storage":
			want = health.NotChecked
		}
		if levels[l.Name] != want {
			t.Errorf("%s: %+v, want %q", l.Name, l.Findings, want)
		}
	}
}
