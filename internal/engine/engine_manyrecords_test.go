package engine

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// More markers and lock records above a value than any first window holds.
func TestReadPastManyRecordsThatChangeNothing(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	layertest.Plant(t, c.Store, "r", layout.WriteFamily, "c", 10, layout.EncodeWrite(9, layout.KindPut))
	layertest.Plant(t, c.Store, "r", layout.DataFamily, "c", 9, []byte("v"))
	for i := tso.Timestamp(0); i < 40; i++ {
		layertest.Plant(t, c.Store, "r", layout.WriteFamily, "c", 20+3*i, layout.EncodeWrite(20+3*i, layout.KindRollback))
		layertest.Plant(t, c.Store, "r", layout.WriteFamily, "c", 22+3*i, layout.EncodeWrite(21+3*i, layout.KindLock))
	}
	for _, ts := range []tso.Timestamp{10, 20, 21, 22, 100, 1000} {
		v, err := reads.NewSnapshot(c.Reads, ts).Get(ctx, cell("r"))
		if err != nil || string(v) != "v" {
			t.Errorf("at %d: %q, %v", ts, v, err)
		}
	}
	if _, err := reads.NewSnapshot(c.Reads, 9).Get(ctx, cell("r")); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("before the commit: %v", err)
	}
}

// A put record whose data is missing is corrupt, unless it is old enough to be the trace of a late
// phase two.
func TestPutRecordWithoutData(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	layertest.Plant(t, c.Store, "r", layout.WriteFamily, "c", 10, layout.EncodeWrite(9, layout.KindPut))
	if _, err := reads.NewSnapshot(c.Reads, 100).Get(ctx, cell("r")); !errors.Is(err, model.ErrCorrupt) {
		t.Errorf("above the mark: %v, want corrupt", err)
	}
	mark := func(column string, ts tso.Timestamp) {
		t.Helper()
		mut := store.NewMutation(1)
		mut.Put(layout.MetaFamily, column, store.MetaTimestamp, binary.BigEndian.AppendUint64(nil, uint64(ts)))
		if err := c.Store.Mutate(ctx, model.MetaTable, meta.RowKey, mut); err != nil {
			t.Fatal(err)
		}
	}
	mark(meta.ColumnWatermark, 10)
	mark("safepoint", 10)
	if _, err := reads.NewSnapshot(c.Reads, 100).Get(ctx, cell("r")); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("at the mark: %v, want not found", err)
	}
	if n := c.Store.Count.Read().LateRecords; n != 1 {
		t.Errorf("%d late records counted, want 1", n)
	}
	// The age of the snapshot is looked at first: it may have been collected itself.
	mark("safepoint", 100)
	if _, err := reads.NewSnapshot(c.Reads, 100).Get(ctx, cell("r")); !errors.Is(err, model.ErrSnapshotTooOld) {
		t.Errorf("at the safepoint: %v, want too old", err)
	}
	tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("x"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); !errors.Is(err, model.ErrSnapshotTooOld) {
		t.Errorf("commit of a transaction below the safepoint: %v, want too old", err)
	}
}
