package repair_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// Timestamps that a client fetched ahead, or remembers, are from before the repair: no transaction
// commits at one, and no snapshot answers at one (I24).
func TestRepairBesideRememberedTimestamps(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBesideRememberedTimestamps)
}

func testRepairBesideRememberedTimestamps(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	s.pay(s.Client, "1", "9")
	c := s.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = time.Hour })) // keeps timestamps at hand
	blind := func(value string) (tso.Timestamp, error) {
		return c.Update(s.ctx, func(_ context.Context, tx *percolator.Txn) error {
			return errors.Join(tx.Set(u(value), []byte(value)), fixture.Mail.Set(tx, value, value)) // the index has it read
		}, percolator.Blind())
	}
	fixture.Must(t, fixture.ErrOf(blind("before"))) // the next timestamp is asked for ahead
	_, err := c.Snapshot(s.ctx, percolator.MaxStaleness(time.Hour))
	fixture.Must(t, err)
	r := s.repair()
	fixture.Must(t, fixture.ErrOf(c.Engine().Meta.Refresh(s.ctx))) // it has heard of the fence
	ts, err := blind("after")
	if err != nil || ts <= r.Until {
		t.Errorf("a blind write after the repair, which ended at %d: %d, %v", r.Until, ts, err)
	}
	snap, err := c.Snapshot(s.ctx, percolator.MaxStaleness(time.Hour))
	if err == nil {
		var got []byte
		if got, err = snap.Get(s.ctx, u("a")); err == nil && string(got) != "6" {
			t.Errorf("a stale snapshot reads %q, want what is at %d, or nothing", got, s.to)
		}
	}
	if err != nil {
		fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	}
	fixture.WantNow(t, s.ctx, c, u("after"), "after")
	s.wants("6", "4")
	s.audit()
}

// A deletion at or below S whose observers ran above S is pending again, and they see it as one.
func TestRepairNotifiesOfADeletionAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairNotifiesOfADeletionAgain)
}

func testRepairNotifiesOfADeletionAgain(t *testing.T) {
	s := newTorn(t)
	seen := make(chan observers.Change, 10)
	registry := observers.NewRegistry()
	registry.Observe("o", "t", "seen", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		seen <- ch
		return nil
	})
	work := func() (changes []observers.Change) {
		t.Helper()
		w, stop := s.work(s.NewClient(), registry, observers.Config{Columns: seenOnly})
		fixture.Must(t, w.WaitIdle(s.ctx))
		stop()
		for len(seen) > 0 {
			changes = append(changes, <-seen)
		}
		return changes
	}
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	work()
	s.now()
	fixture.Must(t, s.refresh())
	fixture.Must(t, fixture.Update(s.ctx, s.Client, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("1", "seen")) }))
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	work()
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "above")
	work()
	s.repair()
	s.audit()
	if again := work(); len(again) != 1 || !again[0].Deleted {
		t.Errorf("after the repair the observer saw %+v, want the deletion once", again)
	}
	s.audit()
}
