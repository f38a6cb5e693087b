package percolator

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// pass lets the oracle's time go on by more than the TTL of a lock.
func pass(h *history) { h.c.oracle.(*counter).last.Add(int64(tso.Timestamp(0).Add(11 * time.Second))) }

// What a commit learns when it may not decide anything any more (I14): what is on the primary, and never a wrong thing.
func TestLateCommitLearnsItsOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(t *testing.T, h *history, cm *commit)
		want    error
	}{
		"the commit request was applied": {func(t *testing.T, h *history, cm *commit) {
			rw, p := cm.rows[0], cm.primary.cell
			held, err := h.c.store.checkAndMutate(h.ctx, p.Table, p.Row, lockFilter(p.Column, cm.startTS), cm.commitMutation(rw, cm.startTS+1), nil)
			if err != nil || !held {
				t.Fatal(held, err)
			}
		}, nil},
		"it was applied, and others have overwritten the primary since": {func(t *testing.T, h *history, cm *commit) {
			rw, p := cm.rows[0], cm.primary.cell
			held, err := h.c.store.checkAndMutate(h.ctx, p.Table, p.Row, lockFilter(p.Column, cm.startTS), cm.commitMutation(rw, cm.startTS+1), nil)
			if err != nil || !held {
				t.Fatal(held, err)
			}
			for range 3 {
				if _, err := h.c.Update(h.ctx, func(_ context.Context, tx *Txn) error { return tx.Set(p, []byte("later")) }); err != nil {
					t.Fatal(err)
				}
			}
		}, nil},
		"others have rolled it back": {func(t *testing.T, h *history, cm *commit) {
			if _, err := h.c.rollBackPrimary(h.ctx, cm.primary.cell, cm.startTS, nil); err != nil {
				t.Fatal(err)
			}
		}, ErrConflict},
		"nobody has, and its lock is dead": {func(_ *testing.T, h *history, _ *commit) { pass(h) }, ErrConflict},
		"others have rolled it back, and that was collected": {func(t *testing.T, h *history, cm *commit) {
			forget(t, h, cm)
			mark := bigtable.NewMutation()
			mark.Set(metaFamily, metaMark, metaTimestamp, encodeTimestamp(cm.startTS))
			if _, err := h.c.store.mutateRows(h.ctx, metaTable, []string{metaRow}, []*bigtable.Mutation{mark}); err != nil {
				t.Fatal(err)
			}
		}, ErrOutcomeUnknown},
		"nothing is there, and nothing was collected": {forget, ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, cm := prewritten(t)
			c.happens(t, h, cm)
			if err := cm.decideLate(h.ctx, nil); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
			pass(h)
			s, err := h.c.Snapshot(h.ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range []string{"a", "b"} {
				if _, err := s.Get(h.ctx, cell(row, "c")); (err == nil) != (c.want == nil) {
					t.Errorf("row %s: %v", row, err)
				}
			}
		})
	}
}

// forget removes what the transaction has left.
func forget(t *testing.T, h *history, cm *commit) {
	t.Helper()
	for _, rw := range cm.rows {
		mut := bigtable.NewMutation()
		mut.DeleteRow()
		if _, err := h.c.store.mutateRows(h.ctx, rw.table, []string{rw.row}, []*bigtable.Mutation{mut}); err != nil {
			t.Fatal(err)
		}
	}
}

// As long as its lock may live the outcome is open, and at the end of the context it is unknown; nothing was decided.
func TestLateCommitWaitsForItsLock(t *testing.T) {
	t.Parallel()
	h, cm := prewritten(t)
	ctx, cancel := context.WithCancel(h.ctx)
	ended := make(chan error, 1)
	go func() { ended <- cm.decideLate(ctx, nil) }()
	asked := h.c.count.oracle.Load()
	for h.c.count.oracle.Load() < asked+3 { // it has judged its lock again and again
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, row := range []string{"a", "b"} {
		if locks, writes := stored(t, h, row, lockFamily), stored(t, h, row, writeFamily); locks != 1 || writes != 0 {
			t.Errorf("row %s: %d locks, %d records", row, locks, writes)
		}
	}
}
