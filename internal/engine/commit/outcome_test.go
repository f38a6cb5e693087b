package commit

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// What a commit learns when it may not decide anything any more (I14): what is on the primary, and
// never a wrong thing.
func TestLateCommitLearnsItsOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(t *testing.T, h *history, cm *commit)
		want    error
	}{
		"the commit request was applied": {func(t *testing.T, h *history, cm *commit) {
			rw, p := cm.rows[0], cm.primary.Cell
			held, err := h.c.Store.CheckAndMutate(h.ctx, p.Table, p.Row, store.HeldLock(p.Column, cm.startTS), cm.commitMutation(rw, cm.startTS+1), nil)
			if err != nil || !held {
				t.Fatal(held, err)
			}
		}, nil},
		"it was applied, and others have overwritten the primary since": {func(t *testing.T, h *history, cm *commit) {
			rw, p := cm.rows[0], cm.primary.Cell
			held, err := h.c.Store.CheckAndMutate(h.ctx, p.Table, p.Row, store.HeldLock(p.Column, cm.startTS), cm.commitMutation(rw, cm.startTS+1), nil)
			if err != nil || !held {
				t.Fatal(held, err)
			}
			for range 3 {
				if _, err := h.c.Update(h.ctx, func(_ context.Context, tx *Txn) error { return tx.Set(p, []byte("later")) }, TxnOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}, nil},
		"others have rolled it back": {func(t *testing.T, h *history, cm *commit) {
			if _, err := h.c.Locks.RollBackPrimary(h.ctx, cm.primary.Cell, cm.startTS); err != nil {
				t.Fatal(err)
			}
		}, model.ErrConflict},
		"nobody has, and its lock is dead": {func(_ *testing.T, h *history, _ *commit) { h.oracle.Pass(11 * time.Second) }, model.ErrConflict},
		"others have rolled it back, and that was collected": {func(t *testing.T, h *history, cm *commit) {
			forget(t, h, cm)
			mark := store.NewMutation(1)
			mark.Put(layout.MetaFamily, meta.ColumnWatermark, store.MetaTimestamp, binary.BigEndian.AppendUint64(nil, uint64(cm.startTS)))
			if err := h.c.Store.Mutate(h.ctx, model.MetaTable, meta.RowKey, mark); err != nil {
				t.Fatal(err)
			}
		}, model.ErrOutcomeUnknown},
		"nothing is there, and nothing was collected": {forget, model.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, cm := prewritten(t)
			c.happens(t, h, cm)
			if err := cm.afterLifetime(h.ctx, nil); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
			h.oracle.Pass(11 * time.Second)
			s, err := h.c.Reads.Snapshot(h.ctx, reads.ReadOptions{})
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
		mut := store.NewMutation(1)
		mut.EraseRow()
		if err := h.c.Store.Mutate(h.ctx, rw.table, rw.row, mut); err != nil {
			t.Fatal(err)
		}
	}
}

// As long as its lock may live the outcome is open, and at the end of the context it is unknown;
// nothing was decided.
func TestLateCommitWaitsForItsLock(t *testing.T) {
	t.Parallel()
	h, cm := prewritten(t)
	ctx, cancel := context.WithCancel(h.ctx)
	ended := make(chan error, 1)
	go func() { ended <- cm.afterLifetime(ctx, nil) }()
	asked := h.c.Store.Count.Oracle.Load()
	for h.c.Store.Count.Oracle.Load() < asked+3 { // it has judged its lock again and again
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, model.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, row := range []string{"a", "b"} {
		if locks, writes := stored(t, h, row, layout.LockFamily), stored(t, h, row, layout.WriteFamily); locks != 1 || writes != 0 {
			t.Errorf("row %s: %d locks, %d records", row, locks, writes)
		}
	}
}
