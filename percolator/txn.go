package percolator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Txn is a transaction under snapshot isolation (section 2.2 of the paper): it reads the snapshot at its start timestamp
// together with its own buffered writes, and commits all of them or none. Write skew is possible; GetForUpdate prevents it for a
// cell, the option LockReads for everything that the transaction reads.
//
// Methods may be called concurrently. After Commit or Rollback every method but Rollback gives ErrTxnDone.
type Txn struct {
	c     *Client
	snap  *Snapshot
	begun time.Time // monotonic, when the start timestamp was asked for
	since time.Time // monotonic, when Begin was called
	opts  txnOptions

	mu     sync.Mutex
	done   bool
	writes map[Cell]*write
	order  []*write // as first buffered; the first is the primary
	weak   map[Cell]bool
	erase  map[Cell]bool // notify cells ≤ start_ts to erase with the acknowledgment in their row (I13)
	bytes  int
}

// write is one buffered write.
type write struct {
	cell     Cell
	kind     kind
	value    []byte
	insert   bool // the cell must be absent in the snapshot
	observed bool
	indexed  Cell // for an entry of an index: the cell that the caller wrote
}

// size is what the write counts towards MaxTxnBytes.
func (w *write) size() int { return len(w.value) + len(w.cell.Row) + len(w.cell.Column) }

// Begin starts a transaction: one request to the oracle, none with Blind if a timestamp is at hand.
func (c *Client) Begin(ctx context.Context, opts ...TxnOption) (*Txn, error) {
	var o txnOptions
	for _, opt := range opts {
		opt.applyTxn(&o)
	}
	return c.begin(ctx, o)
}

func (c *Client) begin(ctx context.Context, o txnOptions) (*Txn, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if o.blind && o.lockReads {
		return nil, fmt.Errorf("percolator: %w: a blind transaction reads nothing, so LockReads contradicts Blind", ErrInvalidArgument)
	}
	if err := c.meta.checkRestore(); err != nil {
		return nil, err
	}
	since := time.Now()
	start, err := c.startTimestamp(ctx, o.blind && !o.retry)
	c.count.latency[opBegin].add(time.Since(since))
	if err != nil {
		return nil, err
	}
	return &Txn{c: c, snap: newSnapshot(c, start.ts), begun: start.when, since: since, opts: o,
		writes: map[Cell]*write{}, weak: map[Cell]bool{}, erase: map[Cell]bool{}}, nil
}

// StartTimestamp is the transaction's snapshot, and identifies it.
// That of a blind transaction may move forward in Commit.
func (tx *Txn) StartTimestamp() tso.Timestamp {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.snap.ts
}

// Set buffers a write; value is copied. Setting the bytes that are already there still conflicts with other writers.
// Errors: ErrInvalidArgument (names, weak columns), ErrTooLarge, ErrSchemaMismatch (unknown table), ErrTxnDone. The
// transaction stays usable after any of them but the last.
func (tx *Txn) Set(c Cell, value []byte) error {
	return tx.buffer(write{cell: c, kind: kindPut, value: value})
}

// Insert is Set for a cell that must have no value in the snapshot; otherwise Commit fails with ErrExists.
func (tx *Txn) Insert(c Cell, value []byte) error {
	if tx.opts.blind {
		return cellErr(ErrInvalidArgument, c, "Insert reads, and the transaction is blind")
	}
	return tx.buffer(write{cell: c, kind: kindPut, value: value, insert: true})
}

// Delete buffers a deletion, which is a write like any other: it conflicts, and it notifies observers.
func (tx *Txn) Delete(c Cell) error {
	return tx.buffer(write{cell: c, kind: kindDelete})
}

// Notify buffers a weak notification (section 2.4 of the paper): the cell's observers will run, and nothing conflicts. The
// column must be one of the table's weak columns.
func (tx *Txn) Notify(c Cell) error {
	info, err := tx.check(c)
	if err != nil {
		return err
	}
	if !info.weak[c.Column] {
		return cellErr(ErrInvalidArgument, c, "only a weak column can be notified; it is not one in the schema")
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	if !tx.weak[c] && len(tx.weak) >= maxWeak {
		return cellErr(ErrTooLarge, c, "the transaction would notify more than %d cells", maxWeak)
	}
	tx.weak[c] = true
	return nil
}

// maxWeak is how many weak notifications one transaction may carry.
const maxWeak = 100_000

// check validates the name of a cell that is to be written or notified.
func (tx *Txn) check(c Cell) (*tableInfo, error) {
	info, ok := tx.c.catalog.Load().user(c.Table)
	if !ok {
		return nil, unknownTable(c.Table)
	}
	if err := validateRow(c); err != nil {
		return nil, err
	}
	return info, validateColumn(c)
}

// buffer validates w and keeps a copy. A later write of the same cell replaces an earlier one, but an Insert stays a
// promise about the snapshot.
func (tx *Txn) buffer(w write) error {
	info, err := tx.check(w.cell)
	if err != nil {
		return err
	}
	if info.weak[w.cell.Column] {
		return cellErr(ErrInvalidArgument, w.cell, "a weak column can only be notified, never written")
	}
	if len(w.value) > MaxValueBytes {
		return cellErr(ErrTooLarge, w.cell, "the value has %d bytes, the limit is %d", len(w.value), MaxValueBytes)
	}
	if w.kind == kindPut {
		for _, ix := range info.indexes[w.cell.Column] {
			if err := ix.checkEntry(w.cell, w.value); err != nil {
				return err
			}
		}
	}
	w.observed = info.observed[w.cell.Column] && w.kind.changes()
	w.value = slices.Clone(w.value)
	if w.kind == kindPut && w.value == nil {
		w.value = []byte{}
	}
	return tx.put(&w)
}

func (tx *Txn) put(w *write) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	old := tx.writes[w.cell]
	if old != nil && w.kind == kindLock {
		return nil // a write conflicts at least as much as a lock
	}
	size := w.size()
	if old != nil {
		size -= old.size()
	}
	if tx.bytes+size > MaxTxnBytes {
		return cellErr(ErrTooLarge, w.cell, "the transaction would buffer more than %d bytes", MaxTxnBytes)
	}
	tx.bytes += size
	if old == nil {
		tx.writes[w.cell] = w
		tx.order = append(tx.order, w)
		return nil
	}
	w.insert = w.insert || old.insert
	*old = *w
	return nil
}

// own returns the transaction's own write of c, if it decides what Get answers.
func (tx *Txn) own(c Cell) (w write, ok bool, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return write{}, false, errTxnDone()
	}
	if p := tx.writes[c]; p != nil && p.kind.changes() {
		return *p, true, nil
	}
	return write{}, false, nil
}

func (tx *Txn) open() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	return nil
}

func (tx *Txn) mayRead(c Cell) error {
	if tx.opts.blind {
		return cellErr(ErrInvalidArgument, c, "the transaction is blind: it may not read")
	}
	return nil
}

// Get returns the value of c in the snapshot, or the transaction's own write; ErrNotFound if there is none. It waits for
// locks of live transactions until ctx ends (ErrLocked with the context's error). The slice is the caller's.
func (tx *Txn) Get(ctx context.Context, c Cell) ([]byte, error) {
	if err := errors.Join(checkContext(ctx), tx.mayRead(c)); err != nil {
		return nil, err
	}
	w, ok, err := tx.own(c)
	switch {
	case err != nil:
		return nil, err
	case ok && w.kind == kindPut:
		return slices.Clone(w.value), nil
	case ok:
		return nil, cellErr(ErrNotFound, c, "deleted by this transaction")
	}
	if err := tx.lockRead(c); err != nil {
		return nil, err
	}
	return tx.snap.Get(ctx, c)
}

// GetMulti returns the values of the cells in order, nil where there is none, with as few requests as possible.
func (tx *Txn) GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error) {
	if err := errors.Join(checkContext(ctx), tx.open()); err != nil {
		return nil, err
	}
	out := make([][]byte, len(cells))
	var ask []Cell
	var at []int
	for i, c := range cells {
		if err := tx.mayRead(c); err != nil {
			return nil, err
		}
		w, ok, err := tx.own(c)
		switch {
		case err != nil:
			return nil, err
		case ok && w.kind == kindPut:
			out[i] = slices.Clone(w.value)
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

// GetForUpdate is Get, and makes the transaction conflict with every concurrent writer of c, as if it had written the
// cell without changing it. That prevents write skew on the cells that it is used for. Observers are not notified.
func (tx *Txn) GetForUpdate(ctx context.Context, c Cell) ([]byte, error) {
	if err := errors.Join(checkContext(ctx), tx.mayRead(c)); err != nil {
		return nil, err
	}
	if err := tx.buffer(write{cell: c, kind: kindLock}); err != nil {
		return nil, err
	}
	return tx.Get(ctx, c)
}

// Scan streams the entries of the named columns (all if none) in row order, then column order, with the transaction's own
// writes merged in as they are when Scan is called. An error ends the stream.
func (tx *Txn) Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error] {
	own, err := tx.ownIn(table, r, columns)
	if err = errors.Join(err, checkContext(ctx), tx.mayRead(Cell{Table: table})); err != nil {
		return failed(err)
	}
	return tx.locking(mergeOwn(tx.snap.Scan(ctx, table, r, columns...), own))
}

// ownIn lists the transaction's own puts and deletes in a range, in order.
func (tx *Txn) ownIn(table string, r Range, columns []string) ([]write, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, errTxnDone()
	}
	var own []write
	for _, w := range tx.order {
		if w.kind.changes() && w.cell.Table == table && r.contains(w.cell.Row) && (len(columns) == 0 || slices.Contains(columns, w.cell.Column)) {
			own = append(own, *w)
		}
	}
	slices.SortFunc(own, func(a, b write) int { return compareCells(a.cell, b.cell) })
	return own, nil
}

// Rollback discards the transaction. Before Commit nothing has been written, so it sends nothing; after Commit it does
// nothing.
func (tx *Txn) Rollback(ctx context.Context) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.done = true
	return nil
}

func errTxnDone() error { return fmt.Errorf("percolator: %w", ErrTxnDone) }

// Update runs f in a transaction and commits it; after a conflict it runs f again in a new transaction, with jittered
// backoff, until ctx ends or MaxAttempts is reached. It returns the commit timestamp. An error of f rolls back and is
// returned as it is (an ErrConflict from f counts as a conflict). ErrOutcomeUnknown is never retried.
func (c *Client) Update(ctx context.Context, f func(ctx context.Context, tx *Txn) error, opts ...TxnOption) (tso.Timestamp, error) {
	var o txnOptions
	for _, opt := range opts {
		opt.applyTxn(&o)
	}
	ctx, span := c.trace.start(ctx, "percolator.update", "")
	ended := errPanicked // of f, whose panic goes on
	defer func() { span.end(ended) }()
	ts, attempts, err := c.update(ctx, f, o)
	ended = err
	c.store.metrics.attempted(ctx, attempts, err)
	span.count("percolator.attempts", attempts)
	return ts, err
}

func (c *Client) update(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o txnOptions) (ts tso.Timestamp, attempt int, err error) {
	pause := newBackoff(2*time.Millisecond, time.Second)
	for attempt = 1; ; attempt++ {
		o.retry = attempt > 1
		ts, err = c.tracedAttempt(ctx, f, o, attempt)
		if err == nil || !errors.Is(err, ErrConflict) || errors.Is(err, ErrOutcomeUnknown) || attempt == o.maxAttempts {
			return ts, attempt, err
		}
		if perr := pause.wait(ctx); perr != nil {
			return 0, attempt, fmt.Errorf("%w: %w", err, perr)
		}
	}
}

func (c *Client) tracedAttempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o txnOptions, n int) (ts tso.Timestamp, err error) {
	ctx, span := c.trace.start(ctx, "percolator.attempt", "")
	span.count("percolator.attempt", n)
	ended := errPanicked
	defer func() { span.end(ended) }()
	ts, err = c.attempt(ctx, f, o)
	ended = err
	return ts, err
}

func (c *Client) attempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o txnOptions) (tso.Timestamp, error) {
	tx, err := c.begin(ctx, o)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	if err := f(ctx, tx); err != nil {
		return 0, err
	}
	return tx.Commit(ctx)
}
