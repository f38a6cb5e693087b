package admin

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/reads"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/internal/store"
)

// batchesAhead is how many batches, of one transaction each, are under way at once.
const batchesAhead = 16

// An indexWalk goes through a table in row order, a few rows at a time, each time in a transaction
// of its own: it reads the rows in the transaction's snapshot, asks plan what to write because of
// them, and commits that. One goroutine reads ahead, several commit, and finished batches are
// reported in row order.
type indexWalk struct {
	e             *engine.Engine
	table, column string
	opts          BackfillOptions

	// plan returns what to write because of the cells that tx has read.
	plan func(ctx context.Context, tx *commit.Txn, cells []model.Entry) ([]*commit.Write, error)
	// done learns that everything before row ("": the end) is finished, in order, one call at a time.
	done func(ctx context.Context, row string, n walkCounts) error
	// over is asked before each batch; an error ends the walk.
	over func() error

	slots    chan struct{} // of batches that are not yet reported: one that waits for a lock must not let the others run ahead for ever
	turn     chan struct{} // of who reports, which takes requests: a mutex would not heed the context
	next     int           // the batch to be reported next
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

// walkBatch is some rows as one transaction sees them. end is where the next batch begins, "" at
// the end of the table.
type walkBatch struct {
	tx    *commit.Txn
	rows  model.Range
	end   string
	cells []model.Entry
}

// run walks from a row to the end of the table.
func (w *indexWalk) run(ctx context.Context, from string) error {
	w.finished = map[int]finishedBatch{}
	w.slots, w.turn = make(chan struct{}, batchesAhead*w.opts.Concurrency), make(chan struct{}, 1)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.opts.Concurrency)
	err := w.readAhead(gctx, g, model.Range{Start: from})
	if werr := g.Wait(); werr != nil { // the reader may only have been stopped by it
		return werr
	}
	return err
}

func (w *indexWalk) readAhead(ctx context.Context, g *errgroup.Group, r model.Range) error {
	for i := 0; ; i++ {
		if err := w.over(); err != nil {
			return err
		}
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return model.WithContext(ctx, ctx.Err())
		}
		b, err := w.readRetrying(ctx, r)
		if err != nil {
			return err
		}
		g.Go(func() error { return w.finish(ctx, i, b) })
		if b.end == "" {
			return nil
		}
		r.Start = b.end
		if err := retry.Sleep(ctx, w.opts.Pause); err != nil {
			return err
		}
	}
}

// readRetrying reads the first batch of r, again after transient failures.
func (w *indexWalk) readRetrying(ctx context.Context, r model.Range) (walkBatch, error) {
	retry := retry.NewTransient()
	for {
		b, err := w.read(ctx, r, w.opts.RowsPerTransaction)
		if err == nil {
			return b, nil
		}
		if err := retry.After(ctx, err); err != nil {
			return b, err
		}
	}
}

// read begins a transaction and reads up to limit rows of r in its snapshot, with locks resolved.
// Where few rows have the column, the batch may have none: then it only ends further on.
func (w *indexWalk) read(ctx context.Context, r model.Range, limit int) (walkBatch, error) {
	tx, err := w.e.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return walkBatch{}, err
	}
	b := walkBatch{tx: tx, rows: r, end: r.End}
	page, err := w.e.Store.ReadPage(ctx, w.table, r, store.Newest([]string{w.column}, tx.StartTimestamp(), 1), store.PageSize{Rows: limit, Bytes: reads.ScanPages.Bytes})
	rows := reads.SeenIn(w.table, page)
	if err == nil {
		err = w.e.Reads.FinishPage(ctx, tx.StartTimestamp(), w.table, rows)
	}
	if err == nil {
		err = w.e.Meta.CheckRead(ctx, tx.StartTimestamp(), w.table)
	}
	if err != nil {
		return b, err
	}
	if page.More {
		b.end = page.Rest.Start
	}
	b.rows.End = b.end
	for _, row := range rows {
		b.cells = append(b.cells, row.Entries...)
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
		if err := b.tx.CommitEntries(ctx, writes); err != nil {
			return n, err
		}
	}
	return walkCounts{cells: int64(len(b.cells)), writes: int64(len(writes))}, nil
}

// redo goes through the rows of a batch again in new snapshots, with fewer rows a transaction after
// each failure and more again after each success.
func (w *indexWalk) redo(ctx context.Context, failed walkBatch, err error) (total walkCounts, _ error) {
	again := retry.NewTransient()
	rows, limit := failed.rows, w.opts.RowsPerTransaction
	for {
		var n walkCounts
		if err != nil {
			if errors.Is(err, model.ErrConflict) {
				total.conflicts++
			}
			if err := again.After(ctx, err); err != nil {
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
		again, limit = retry.NewTransient(), min(2*limit, w.opts.RowsPerTransaction)
	}
}

// report hands finished batches on in row order.
func (w *indexWalk) report(ctx context.Context, i int, b finishedBatch) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return model.WithContext(ctx, ctx.Err())
	}
	defer func() { <-w.turn }()
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
