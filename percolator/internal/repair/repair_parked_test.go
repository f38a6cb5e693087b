package repair_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a repair notifies again, since a lock of an acknowledgment goes, leaves an observer parked
// that was parked for the same change at the timestamp of the repair already (I19): only those
// parked since are forgotten.
func TestRepairOfALockedAcknowledgmentLeavesOthersParked(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfALockedAcknowledgmentLeavesOthersParked)
}

func testRepairOfALockedAcknowledgmentLeavesOthersParked(t *testing.T) {
	s := newTorn(t)
	var ran []string
	work := func(fails ...string) {
		registry := observers.NewRegistry()
		for _, o := range []string{"o", "p"} {
			registry.Observe(o, "t", "seen", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
				ran = append(ran, o)
				if slices.Contains(fails, o) {
					return errors.New("it fails")
				}
				return nil
			})
		}
		w, stop := s.work(s.Client, registry, observers.Config{MaxAttempts: 1, Columns: seenOnly})
		fixture.Must(t, w.WaitIdle(s.ctx))
		stop()
	}
	parked := func() (names []string) {
		for p, err := range observers.ListParked(s.ctx, s.Client, "t") {
			fixture.Must(t, err)
			names = append(names, p.Observer)
		}
		return names
	}
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	work("o", "p")
	if got := parked(); !slices.Equal(got, []string{"o", "p"}) {
		t.Fatalf("parked: %q", got)
	}
	s.now()
	// An operator retries p, which now succeeds, and its worker dies before phase two.
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("by the run")))
	_, err := (*commit.Txn)(tx).Acknowledge(s.ctx, fixture.Cell("1", "seen"), "p", []string{"o", "p"})
	fixture.Must(t, err)
	fixture.MustCommit(t, s.ctx, tx)
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn(layout.NotifyFamily, layout.StateColumn(model.ObserverState{Cell: fixture.Cell("1", "seen"), Observer: "p"}))
	fixture.Must(t, s.Store().Open("t").Apply(s.ctx, "1", mut))
	if r := s.repair(); r.RolledBack != 1 {
		t.Errorf("%+v", r)
	}
	s.audit()
	ran = nil
	work("o")
	if !slices.Equal(ran, []string{"p"}) {
		t.Errorf("ran %q, want p only: o was parked for this change at the timestamp of the repair", ran)
	}
	if got := parked(); !slices.Equal(got, []string{"o"}) {
		t.Errorf("parked: %q, want o", got)
	}
}

// What an observer acknowledged above the timestamp of the repair is pending again, also where its
// row still says that it was parked for the change before: what made it run was a later
// notification, which is gone (I23).
func TestRepairRunsAgainWhatWasParkedBefore(t *testing.T) {
	t.Parallel()
	for name, phaseTwo := range map[string]bool{"locked": false, "acknowledged": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { repairRunsAgainWhatWasParkedBefore(t, phaseTwo) })
		})
	}
}

func repairRunsAgainWhatWasParkedBefore(t *testing.T, phaseTwo bool) {
	s := newTorn(t)
	ran, others := 0, 0
	work := func(result error) {
		registry := observers.NewRegistry()
		registry.Observe("o", "t", "seen", func(context.Context, *percolator.Txn, observers.Change) error {
			ran++
			return result
		})
		registry.Observe("p", "t", "seen", func(context.Context, *percolator.Txn, observers.Change) error {
			others++
			return nil
		})
		w, stop := s.work(s.Client, registry, observers.Config{MaxAttempts: 1, Columns: seenOnly})
		fixture.Must(t, w.WaitIdle(s.ctx))
		stop()
	}
	seen := fixture.Cell("1", "seen")
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	work(errors.New("it fails"))
	// A backfill notifies the cell anew, and the observer is about to run for that.
	_, err := s.admin.BackfillObserver(s.ctx, "t", "seen", "o", admin.ObserverOptions{})
	fixture.Must(t, err)
	s.now()
	client := s.Client
	if !phaseTwo {
		client = s.dead()
	}
	tx := fixture.MustBegin(t, s.ctx, client)
	fixture.Must(t, tx.Set(u("a"), []byte("by the run")))
	_, err = (*commit.Txn)(tx).Acknowledge(s.ctx, seen, "o", []string{"o", "p"})
	fixture.Must(t, err)
	fixture.MustCommit(t, s.ctx, tx)
	// Its worker erases the notifications. The copy of the row is from before it erases, in a
	// request of its own, that the observer is parked.
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn(layout.NotifyFamily, "seen")
	fixture.Must(t, s.Store().Open("t").Apply(s.ctx, "1", mut))
	s.repair()
	s.audit()
	ran, others = 0, 0
	work(nil)
	if ran != 1 {
		t.Errorf("it ran %d times for a change that it had acknowledged above the timestamp of the repair", ran)
	}
	if others != 0 {
		t.Errorf("another observer, whose run stays, ran %d times", others)
	}
}
