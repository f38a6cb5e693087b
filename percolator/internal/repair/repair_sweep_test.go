package repair_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A repair leaves a journal without entries that is building, and a client that lives through it
// goes on in its streams. The sweep that follows leads to what the repair has left.
func TestSweepAfterARepair(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepAfterARepair)
}

func testSweepAfterARepair(t *testing.T) {
	s := newTorn(t)
	fixture.Put(t, s.ctx, s.Client, "1", "c", "below")
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "below")
	s.now()
	fixture.Put(t, s.ctx, s.Client, "2", "c", "above")
	fixture.Sweep(t, s.ctx, s.Client, model.SweepConfig{}) // its position goes with the repair
	before, err := journal.Streams(s.ctx, s.Client.Engine().Store)
	fixture.Must(t, err)
	if r := s.repair(); r.Positions != 1 {
		t.Errorf("%+v", r)
	}
	after, err := journal.Streams(s.ctx, s.Client.Engine().Store)
	fixture.Must(t, err)
	if names := fixture.NamedInJournal(t, s.ctx, s.Client); len(names) != 0 || len(after) != len(before) || s.Client.Engine().Meta.ByJournal() {
		t.Errorf("the journal names %q in %d streams of %d", names, len(after), len(before))
	}
	fixture.Put(t, s.ctx, s.Client, "3", "c", "after")
	dispatched := fixture.Heard(s.Client)
	if done := fixture.Sweep(t, s.ctx, s.Client, model.SweepConfig{}); done.Building == "" || done.Announced != 1 || done.Rows != 2 {
		t.Errorf("%+v", done)
	}
	if names := fixture.NamedInJournal(t, s.ctx, s.Client); !slices.Equal(names, []string{"1", "3"}) || !slices.Equal(dispatched(), []string{"1"}) {
		t.Errorf("the journal names %q; dispatched %q", names, dispatched())
	}
	s.audit()
}

// While a repair is unfinished nobody sweeps.
func TestNoSweepBesideARepair(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testNoSweepBesideARepair)
}

func testNoSweepBesideARepair(t *testing.T) {
	s := newTorn(t)
	s.now()
	ctx, cancel := context.WithCancel(s.ctx)
	_, err := s.admin.Repair(ctx, model.RepairOptions{To: s.to, Waiting: func(time.Duration) { cancel() }})
	if err == nil {
		t.Fatal("the repair came to its end")
	}
	w, err := s.admin.NewSweeper(model.SweepConfig{})
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(w.Sweep(s.ctx)), admin.ErrRepairing)
	s.repair()
}
