package percolator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// An indexWalk goes through a table in row order, a few rows at a time, each time in a transaction of its own: it reads the rows in the
// transaction's snapshot, asks what is to be written because of them, and commits that. One goroutine reads ahead, several
// commit, and what is finished is reported in row order.
type indexWalk struct {
	c             *Client
	table, column string
	opts          BackfillOptions

	// plan says what is to be written because of the cells that tx has read.
	plan func(ctx context.Context, tx *Txn, cells []Entry) ([]*write, error)
	// done is told that everything before row ("": the end) is finished, in order, one call at a time.
	done func(ctx context.Context, row string, n walkCounts) error
	// over is asked before each batch; an error ends the walk.
	over func() error

	slots    chan struct{} // of batches that are not yet reported: one that waits for a lock must not let the others run ahead for ever
	mu       sync.Mutex
	next     int // the batch to be reported next
	finished map[int]finishedBatch
}

// walkCounts is what one batch did.
type walkCounts struct {
	cells, writes, conflicts int64
}

type finishedBatch struct {
	end string
	n   walkCounts
}

// walkBatch is some rows as one transaction sees them. end is where the next batch begins, "" at the end of the table.
type walkBatch struct {
	tx    *Txn
	rows  Range
	end   string
	cells []Entry
}

// A batch that fails for a reason that may pass is tried again: for ever after conflicts, which others' progress causes, and
// transientFailures times in a row after anything else.
const (
	transientFailures = 8
	batchesAhead      = 16 // for each transaction at once
)

// run walks from a row to the end of the table.
func (w *indexWalk) run(ctx context.Context, from string) error {
	w.finished = map[int]finishedBatch{}
	w.slots = make(chan struct{}, batchesAhead*w.opts.Concurrency)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.opts.Concurrency)
	err := w.readAhead(gctx, g, Range{Start: from})
	if werr := g.Wait(); werr != nil { // the reader may only have been stopped by it
		return werr
	}
	return err
}

func (w *indexWalk) readAhead(ctx context.Context, g *errgroup.Group, r Range) error {
	for i := 0; ; i++ {
		if err := w.over(); err != nil {
			return err
		}
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return withContext(ctx, ctx.Err())
		}
		b, err := w.readPatiently(ctx, r)
		if err != nil {
			return err
		}
		g.Go(func() error { return w.finish(ctx, i, b) })
		if b.end == "" {
			return nil
		}
		r.Start = b.end
		if err := sleep(ctx, w.opts.Pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("percolator: %w", ctx.Err())
	}
}

// readPatiently reads the first batch of r, again after failures that may pass.
func (w *indexWalk) readPatiently(ctx context.Context, r Range) (walkBatch, error) {
	retry := newPatience()
	for {
		b, err := w.read(ctx, r, w.opts.RowsPerTransaction)
		if err == nil {
			return b, nil
		}
		if err := retry.after(ctx, err); err != nil {
			return b, err
		}
	}
}

// read begins a transaction and reads up to limit rows of r in its snapshot, with locks settled.
func (w *indexWalk) read(ctx context.Context, r Range, limit int) (walkBatch, error) {
	tx, err := w.c.begin(ctx, txnOptions{})
	if err != nil {
		return walkBatch{}, err
	}
	b := walkBatch{tx: tx, rows: r, end: r.End}
	page, more, err := w.c.readPage(ctx, w.table, r, snapshotFilter([]string{w.column}, tx.snap.ts, 1), limit)
	if err == nil {
		err = w.c.settlePage(ctx, tx.snap.ts, w.table, page)
	}
	if err == nil {
		err = w.c.meta.checkRead(ctx, tx.snap.ts)
	}
	if err != nil {
		return b, err
	}
	if more {
		b.end = page[len(page)-1].key + "\x00"
	}
	b.rows.End = b.end
	for _, row := range page {
		b.cells = append(b.cells, row.entries...)
	}
	return b, nil
}

// finish applies a batch and reports it.
func (w *indexWalk) finish(ctx context.Context, i int, b walkBatch) error {
	n, err := w.apply(ctx, b)
	if err != nil {
		var more walkCounts
		if more, err = w.redo(ctx, b, err); err != nil {
			return err
		}
		n = more
	}
	return w.report(ctx, i, finishedBatch{b.end, n})
}

// apply commits what one batch needs.
func (w *indexWalk) apply(ctx context.Context, b walkBatch) (n walkCounts, err error) {
	writes, err := w.plan(ctx, b.tx, b.cells)
	if err != nil {
		return n, err
	}
	if len(writes) > 0 {
		if err := b.tx.commitEntries(ctx, writes); err != nil {
			return n, err
		}
	}
	return walkCounts{cells: int64(len(b.cells)), writes: int64(len(writes))}, nil
}

// redo goes through the rows of a batch again in new snapshots, with fewer rows a transaction after each failure and more
// again after each success.
func (w *indexWalk) redo(ctx context.Context, failed walkBatch, err error) (total walkCounts, _ error) {
	retry := newPatience()
	rows, limit := failed.rows, w.opts.RowsPerTransaction
	for {
		var n walkCounts
		if err != nil {
			if errors.Is(err, ErrConflict) {
				total.conflicts++
			}
			if err := retry.after(ctx, err); err != nil {
				return total, err
			}
			limit = max(1, limit/2)
		}
		var b walkBatch
		if b, err = w.read(ctx, rows, limit); err == nil {
			n, err = w.apply(ctx, b)
		}
		if err != nil {
			continue
		}
		total.cells, total.writes = total.cells+n.cells, total.writes+n.writes
		if rows.Start = b.end; b.end == failed.end {
			return total, nil
		}
		retry, limit = newPatience(), min(2*limit, w.opts.RowsPerTransaction)
	}
}

// report hands finished batches on in row order.
func (w *indexWalk) report(ctx context.Context, i int, b finishedBatch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished[i] = b
	for {
		b, ok := w.finished[w.next]
		if !ok {
			return nil
		}
		delete(w.finished, w.next)
		w.next++
		<-w.slots
		if err := w.done(ctx, b.end, b.n); err != nil {
			return err
		}
	}
}

// patience decides how often something is tried again.
type patience struct {
	pause  *backoff
	failed int
}

func newPatience() *patience { return &patience{pause: newBackoff(2*time.Millisecond, 2*time.Second)} }

// after pauses if what failed with err may succeed later, and returns the error otherwise.
func (p *patience) after(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return withContext(ctx, err)
	}
	if !errors.Is(err, ErrConflict) {
		if p.failed++; p.failed == transientFailures || !mayPass(err) {
			return err
		}
	}
	if perr := p.pause.wait(ctx); perr != nil {
		return fmt.Errorf("%w: %w", err, perr)
	}
	return nil
}

// mayPass says whether an error is the store's or the oracle's momentary state rather than something that somebody has to change.
func mayPass(err error) bool {
	for _, definite := range []error{ErrClosed, ErrUnique, ErrCorrupt, ErrTooLarge, ErrSchemaMismatch, ErrInvalidArgument} {
		if errors.Is(err, definite) {
			return false
		}
	}
	return maybeApplied(err) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrSnapshotTooOld)
}

// commitEntries commits entries of an index in the transaction that planned them. It is Commit without what concerns cells of users:
// no observer is notified, and no entry has entries of its own.
func (tx *Txn) commitEntries(ctx context.Context, writes []*write) error {
	c := tx.c
	cm := &commit{c: c, schema: c.catalog.Load(), startTS: tx.snap.ts, begun: tx.begun, outcome: map[*rowWrites]prewriteOutcome{}}
	err := cm.group(writes, nil)
	if err == nil {
		err = cm.checkAge(ctx)
	}
	if err == nil {
		_, err = cm.run(ctx)
	}
	c.count.ended(err)
	return err
}
