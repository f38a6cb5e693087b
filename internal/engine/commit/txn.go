package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Txn is a transaction under snapshot isolation (section 2.2 of the paper): it reads the snapshot
// at its start timestamp together with its own buffered writes, and commits all of them or none.
// Write skew is possible; GetForUpdate prevents it for a cell, the option LockReads for everything
// that the transaction reads.
//
// Methods may be called concurrently. After Commit or Rollback every method but Rollback gives
// ErrTxnDone.
type Txn struct {
	c       *Committer
	snap    *reads.Snapshot // at the start timestamp
	started time.Time       // monotonic, when the client asked for the start timestamp
	ahead   bool            // that was before Begin
	since   time.Time       // monotonic, when Begin was called
	opts    TxnOptions

	mu     sync.Mutex
	done   bool
	lent   bool // to a function whose caller commits
	writes map[model.Cell]*Write
	order  []*Write // as first buffered; the first is the primary
	weak   map[model.Cell]bool
	// Notify cells ≤ start_ts that go with their row's acknowledgment (I13).
	erase map[model.Cell]bool
	bytes int
	with  *together // that began with it, and may share its commit; nil: none

	shared bool // it has committed with others

	// What scans keep; nil until then.
	sorted  *ownWrites                 // of order
	indexes map[model.Cell][]*ownIndex // by cell without row
}

// Write is one buffered write.
type Write struct {
	Cell     model.Cell
	Kind     layout.Kind
	Value    []byte // for KindPut
	insert   bool   // the cell must be absent in the snapshot
	observed bool
	Indexed  model.Cell // for an index entry: the cell that the caller wrote
	Life     layout.Lifetime
	place    int // in Txn.order
}

// size is what the write counts towards MaxTxnBytes.
func (w *Write) size() int { return len(w.Value) + len(w.Cell.Row) + len(w.Cell.Column) }

// TxnOptions change how a transaction runs.
type TxnOptions struct {
	MaxAttempts int    // of Update; 0: as many as the context allows
	Blind       bool   // reads nothing, so its start timestamp may be prefetched
	LockReads   bool   // every read conflicts like a write
	retry       bool   // after a conflict: a prefetched start timestamp may be too old
	turns       *turns // that the attempt of an Update holds; nil: it respects none
	queued      bool   // the attempt has passed the gate
}

// Begin begins a transaction.
func (c *Committer) Begin(ctx context.Context, o TxnOptions) (*Txn, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	if o.Blind && o.LockReads {
		return nil, fmt.Errorf("percolator: %w: a blind transaction reads nothing, so LockReads contradicts Blind", model.ErrInvalidArgument)
	}
	if err := c.Meta.CheckFence(); err != nil {
		return nil, err
	}
	since := time.Now()
	start, err := c.Clock.StartTimestamp(ctx, o.Blind && !o.retry)
	c.Store.Count.Latency[telemetry.OpBegin].Add(time.Since(since))
	if err != nil {
		return nil, err
	}
	tx := c.newTxn(reads.ForTxn(c.Reads, start.TS), start.When.Time, since, o)
	tx.ahead = start.Ahead
	return tx, nil
}

func (c *Committer) newTxn(snap *reads.Snapshot, started, since time.Time, o TxnOptions) *Txn {
	return &Txn{c: c, snap: snap, started: started, since: since, opts: o,
		writes: map[model.Cell]*Write{}, weak: map[model.Cell]bool{}, erase: map[model.Cell]bool{}}
}

// StartTimestamp identifies the transaction.
func (tx *Txn) StartTimestamp() tso.Timestamp {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.snap.StartTimestamp()
}

// Notifies reports whether the transaction, if it commits, notifies any cell.
func (tx *Txn) Notifies() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return len(tx.weak) > 0 || slices.ContainsFunc(tx.order, func(w *Write) bool { return w.observed })
}

// Lend is called before a function gets the transaction. From then on the lender alone commits it
// or rolls it back.
func (tx *Txn) Lend() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.lent = true
}

// CheckOwned returns ErrInvalidArgument until the lender has ended the transaction.
func (tx *Txn) CheckOwned() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.lent && !tx.done {
		return fmt.Errorf("percolator: %w: do not call Commit or Rollback in the function of Update, or in an observer: the transaction commits when that returns nil, and rolls back when it returns an error", model.ErrInvalidArgument)
	}
	return nil
}

// Set buffers a put.
func (tx *Txn) Set(c model.Cell, value []byte) error {
	return tx.buffer(Write{Cell: c, Kind: layout.KindPut, Value: value})
}

// Insert buffers a put of a cell that must be absent.
func (tx *Txn) Insert(c model.Cell, value []byte) error {
	if tx.opts.Blind {
		return catalog.CellError(model.ErrInvalidArgument, c, "Insert reads, and the transaction is blind")
	}
	return tx.buffer(Write{Cell: c, Kind: layout.KindPut, Value: value, insert: true})
}

// InsertNothing buffers the promise of an Insert that a cell is absent, and leaves it so.
func (tx *Txn) InsertNothing(c model.Cell) error {
	if tx.opts.Blind {
		return catalog.CellError(model.ErrInvalidArgument, c, "Insert reads, and the transaction is blind")
	}
	return tx.buffer(Write{Cell: c, Kind: layout.KindLock, insert: true})
}

// Delete buffers a deletion.
func (tx *Txn) Delete(c model.Cell) error {
	return tx.buffer(Write{Cell: c, Kind: layout.KindDelete})
}

// Notify buffers a weak notification.
func (tx *Txn) Notify(c model.Cell) error {
	info, err := tx.check(c)
	if err != nil {
		return err
	}
	if err := info.Declared.Check(c); err != nil {
		return err
	}
	if !info.IsWeak[c.Column] {
		return catalog.CellError(model.ErrInvalidArgument, c, "only a weak column can be notified; it is not one in the schema")
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	if !tx.weak[c] && len(tx.weak) >= maxWeak {
		return catalog.CellError(model.ErrTooLarge, c, "the transaction would notify more than %d cells", maxWeak)
	}
	tx.weak[c] = true
	return nil
}

// maxWeak is how many weak notifications one transaction may carry: all may be in one row.
const maxWeak = model.MaxMutationsPerRow

// check validates the name of a cell that is to be written or notified.
func (tx *Txn) check(c model.Cell) (*catalog.TableInfo, error) {
	info, ok := tx.c.Meta.Catalog.Load().UserTable(c.Table)
	if !ok {
		return nil, tx.c.Meta.Catalog.Load().UnknownTable(c.Table)
	}
	if err := catalog.ValidateRow(c); err != nil {
		return nil, err
	}
	return info, catalog.ValidateColumn(c)
}

// CheckType refuses to use a declared column as another type.
func (tx *Txn) CheckType(c model.Cell, as model.Type) error { return tx.c.Meta.CheckType(c, as) }

// CheckIndex refuses an index as one over a column that it does not cover.
func (tx *Txn) CheckIndex(c model.Cell, index string) error { return tx.c.Meta.CheckIndex(c, index) }

// buffer validates w and keeps a copy. A later write of the same cell replaces an earlier one, but
// an Insert remains a promise about the snapshot.
func (tx *Txn) buffer(w Write) error {
	info, err := tx.check(w.Cell)
	if err != nil {
		return err
	}
	if info.IsWeak[w.Cell.Column] {
		return catalog.CellError(model.ErrInvalidArgument, w.Cell, "a weak column can only be notified, never written")
	}
	if len(w.Value) > model.MaxValueBytes {
		return catalog.CellError(model.ErrTooLarge, w.Cell, "the value has %d bytes, the limit is %d", len(w.Value), model.MaxValueBytes)
	}
	if w.Kind == layout.KindPut {
		err = info.CheckPut(w.Cell, w.Value)
	} else {
		err = info.Declared.Check(w.Cell)
	}
	if err != nil {
		return err
	}
	w.observed = info.IsObserved[w.Cell.Column] && w.Kind.Changes()
	w.Value = slices.Clone(w.Value)
	if w.Kind == layout.KindPut && w.Value == nil {
		w.Value = []byte{}
	}
	return tx.Put(&w)
}

// Put buffers a valid write, which it keeps.
func (tx *Txn) Put(w *Write) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	old := tx.writes[w.Cell]
	if old != nil && w.Kind == layout.KindLock {
		old.insert = old.insert || w.insert
		return nil // a write conflicts at least as much as a lock
	}
	size := w.size()
	if old != nil {
		size -= old.size()
	}
	if tx.bytes+size > model.MaxTxnBytes {
		return catalog.CellError(model.ErrTooLarge, w.Cell, "the transaction would buffer more than %d bytes", model.MaxTxnBytes)
	}
	tx.bytes += size
	if old == nil {
		tx.add(w)
		tx.changed(w)
		return nil
	}
	w.insert, w.place = w.insert || old.insert, old.place
	*old = *w
	tx.changed(old)
	return nil
}

// add buffers the first write of a cell; the caller holds tx.mu.
func (tx *Txn) add(w *Write) {
	w.place = len(tx.order)
	tx.writes[w.Cell] = w
	tx.order = append(tx.order, w)
}

// own returns the transaction's own write of c, if that decides what Get answers.
func (tx *Txn) own(c model.Cell) (w Write, ok bool, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return Write{}, false, errTxnDone()
	}
	if p := tx.writes[c]; p != nil && p.Kind.Changes() {
		return *p, true, nil
	}
	return Write{}, false, nil
}

func (tx *Txn) open() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	return nil
}

func (tx *Txn) mayRead(c model.Cell) error {
	if tx.opts.Blind {
		return catalog.CellError(model.ErrInvalidArgument, c, "the transaction is blind: it may not read")
	}
	return nil
}

// Get reads the transaction's own write or the snapshot.
func (tx *Txn) Get(ctx context.Context, c model.Cell) ([]byte, error) {
	if err := errors.Join(retry.CheckContext(ctx), tx.mayRead(c)); err != nil {
		return nil, err
	}
	w, ok, err := tx.own(c)
	switch {
	case err != nil:
		return nil, err
	case ok && w.Kind == layout.KindPut:
		return slices.Clone(w.Value), nil
	case ok:
		return nil, catalog.CellError(model.ErrNotFound, c, "deleted by this transaction")
	}
	if err := tx.lockRead(c); err != nil {
		return nil, err
	}
	return tx.snap.Get(ctx, c)
}

// GetMulti reads the transaction's own writes or the snapshot.
func (tx *Txn) GetMulti(ctx context.Context, cells ...model.Cell) ([][]byte, error) {
	if err := errors.Join(retry.CheckContext(ctx), tx.open()); err != nil {
		return nil, err
	}
	out := make([][]byte, len(cells))
	var ask []model.Cell
	var at []int
	for i, c := range cells {
		if err := tx.mayRead(c); err != nil {
			return nil, err
		}
		w, ok, err := tx.own(c)
		switch {
		case err != nil:
			return nil, err
		case ok && w.Kind == layout.KindPut:
			out[i] = slices.Clone(w.Value)
		case !ok:
			ask, at = append(ask, c), append(at, i)
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	if err := tx.lockRead(ask...); err != nil {
		return nil, err
	}
	values, err := tx.snap.GetMulti(ctx, ask...)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		out[i] = values[j]
	}
	return out, nil
}

// GetForUpdate reads c and buffers a lock on it.
func (tx *Txn) GetForUpdate(ctx context.Context, c model.Cell) ([]byte, error) {
	if err := errors.Join(retry.CheckContext(ctx), tx.mayRead(c)); err != nil {
		return nil, err
	}
	if err := tx.buffer(Write{Cell: c, Kind: layout.KindLock}); err != nil {
		return nil, err
	}
	return tx.Get(ctx, c)
}

// Rollback discards the buffered writes; nothing has been sent.
func (tx *Txn) Rollback(ctx context.Context) error {
	if with := tx.leave(); with != nil {
		with.leave()
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.done = true
	return nil
}

func errTxnDone() error { return fmt.Errorf("percolator: %w", model.ErrTxnDone) }

// CommitEntries commits entries of an index in the transaction that planned them. It is Commit
// without what concerns users' cells: no observer is notified, and no entry has entries of its own.
func (tx *Txn) CommitEntries(ctx context.Context, writes []*Write) error {
	c := tx.c
	cm := &commit{c: c, schema: c.Meta.Catalog.Load(), startTS: tx.StartTimestamp(), started: tx.started, outcome: map[*rowWrites]prewriteOutcome{}}
	err := cm.group(writes, nil)
	if err == nil {
		err = cm.checkAge(ctx)
	}
	if err == nil {
		_, err = cm.run(ctx)
	}
	c.Store.Count.Ended(err)
	return err
}

// Buffered returns the transaction's own write of c, if any; a deletion has no value.
func (tx *Txn) Buffered(c model.Cell) (value []byte, written bool, err error) {
	w, ok, err := tx.own(c)
	if err != nil || !ok || w.Kind != layout.KindPut {
		return nil, ok, err
	}
	return reads.NonNil(slices.Clone(w.Value)), true, nil
}

// Known returns what the transaction knows of a cell without asking: it has written or read that
// itself. What was read ahead of it does not count, nor what scans have found. Errors: ErrTooLarge
// if it has read more than it remembers.
func (tx *Txn) Known(c model.Cell) (reads.Remembered, error) {
	w, written, err := tx.own(c)
	switch {
	case err != nil:
		return reads.Remembered{}, err
	case !written:
		return tx.snap.Asked(c)
	case w.Kind == layout.KindPut:
		return reads.Remember(reads.NonNil(w.Value)), nil
	}
	return reads.Remember(nil), nil
}

// IsBlind reports whether the transaction was started with Blind.
func (tx *Txn) IsBlind() bool { return tx.opts.Blind }
