package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ColumnFence is the column of the meta row with the Fence.
const ColumnFence = "restore"

// Fence is the cell of the meta row that keeps every transaction out while a restore, or a repair,
// is unfinished.
type Fence struct {
	Repair *Repair `json:",omitempty"` // nil: a restore

	ID    string // of the backup
	Fresh bool   `json:",omitempty"` // older than the schema: no clients to wait for
	Ready bool   `json:",omitempty"` // the tables were found empty when the fence was in force
	// Abandoned: AbandonRestore waits until no client writes for this restore any more.
	Abandoned bool `json:",omitempty"`
	Started   time.Time

	Start, Commit, AckStart, AckCommit tso.Timestamp `json:",omitzero"` // once Ready
}

// Repair is how far the repair has come that the fence is for.
type Repair struct {
	To       tso.Timestamp // what committed up to here stays
	Phase    model.RepairPhase
	Greatest tso.Timestamp `json:",omitzero"` // no cell is newer, or was; from the first look on

	// Above it, collection has taken no record from beside a lock.
	Sound tso.Timestamp `json:",omitzero"`
	Floor tso.Timestamp `json:",omitzero"` // the safepoint of the repaired instance
}

// Encode returns the bytes of the fence's cell.
func (f Fence) Encode() []byte {
	return layout.JSON(f)
}

func decodeFence(b []byte) (*Fence, error) {
	f := new(Fence)
	return f, json.Unmarshal(b, f)
}

// Refusal is the ErrRestoring that names the restore, or the ErrRepairing that names the repair.
func (f *Fence) Refusal() error {
	if f.Repair != nil {
		return fmt.Errorf("percolator: %w: that to %d (%s), started %s; continue it with percolator repair --to %d", model.ErrRepairing,
			f.Repair.To, f.Repair.To.Time().UTC().Format(time.RFC3339Nano), f.Started.UTC().Format(time.RFC3339), f.Repair.To)
	}
	return fmt.Errorf("percolator: %w: that of backup %s, started %s; continue it with percolator restore", model.ErrRestoring, f.ID, f.Started.UTC().Format(time.RFC3339))
}

// CheckFence spares a transaction the work that its reads or its commit would refuse, as far as
// this client knows. Above all it keeps a worker from calling an observer, and parking it, for what
// a restore has written.
func (w *Watcher) CheckFence() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.last.Fence != nil {
		return w.last.Fence.Refusal()
	}
	return nil
}

// CheckRepairing refuses while a repair is unfinished, by knowledge that is no older than
// Timing.MetaMaxAge. until is a request lifetime after the call, however long the check takes: the
// caller sends nothing later by this check, and checks again before it does. So one drain after its
// fence was stored, no client resolves a lock, erases a notification or collects any more. Beside a
// restore, which writes into empty tables, that does no harm.
func (w *Watcher) CheckRepairing(ctx context.Context) (until time.Time, err error) {
	until = time.Now().Add(w.Store.Timing.RequestLifetime)
	m, err := w.Known(ctx)
	if err != nil {
		return until, err
	}
	return until, m.RefuseRepair()
}

// Retry is that of the store, for what must not meet a repair: it checks for one first.
func (w *Watcher) Retry(ctx context.Context, send func(context.Context) (bool, error)) (bool, error) {
	until, err := w.CheckRepairing(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return w.Store.Retry(ctx, send)
}

// RefuseRepair is CheckRepairing of what was read.
func (m State) RefuseRepair() error {
	if m.Fence != nil && m.Fence.Repair != nil {
		return m.Fence.Refusal()
	}
	return nil
}

// ReplaceFence stores next (nil: nothing) instead of old, together with mut, unless another process
// was faster.
func (w *Watcher) ReplaceFence(ctx context.Context, old, next *Fence, mut *store.Mutation) (replaced bool, err error) {
	if next != nil {
		mut.Put(layout.MetaFamily, ColumnFence, store.MetaTimestamp, next.Encode())
	} else {
		mut.EraseColumn(layout.MetaFamily, ColumnFence)
	}
	var was []byte
	if old != nil {
		was = old.Encode()
	}
	replaced, err = w.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return w.Store.CompareAndMutate(ctx, RowKey, ColumnFence, was, mut)
	})
	if err != nil {
		return false, fmt.Errorf("percolator: the fence: %w", err)
	}
	return replaced, nil
}
