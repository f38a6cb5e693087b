package admin

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// batchesAhead is how many batches, of one transaction each, are in flight at once.
const batchesAhead = 16

// A tableWalk goes through rows of a table in order, a few at a time, each time in a transaction of
// its own: it reads the rows in the transaction's snapshot, and apply commits what has to be
// written because of them. One goroutine reads ahead, several commit, and finished batches are
// reported in row order.
type tableWalk struct {
	e     *engine.Engine
	table string
	query func(at tso.Timestamp) store.Query // what is read of the rows
	pacing

	// apply commits what the cells that tx has read ask for, and counts cells and writes. It may
	// have committed some of them when it fails: the rows are then read again.
	apply func(ctx context.Context, tx *commit.Txn, cells []model.Entry) (walkCounts, error)
	// done learns that everything before row ("": the end) is finished, in order, one call at a
	// time.
	done func(ctx context.Context, row string, n walkCounts) error
	// over is asked when a batch was read, and this client knows as much as reads demand, before
	// anything is committed because of it: the table may be another. An error ends the walk.
	over func() error

	slots    chan struct{} // of unreported batches: bounds the lead over one at a lock
	turn     chan struct{} // for reporting by requests: a mutex would ignore the context
	next     int           // the batch to be reported next
	finished map[int]finishedBatch
}

// pacing is how fast a tableWalk goes.
type pacing struct {
	concurrency int           // transactions that commit at once
	rows        int           // of a transaction; after a conflict fewer for a while
	pause       time.Duration // between the beginnings of two transactions
	rate        *rate.Limiter // of rows; nil: none
}

// walkCounts is what one batch did.
type walkCounts struct {
	cells, writes, conflicts int64
}

type finishedBatch struct {
	end string
	n   walkCounts
}

// walkBatch is some rows as one transaction sees them. end is where the next batch begins; behind
// the last one it is the end of the walk.
type walkBatch struct {
	tx    *commit.Txn
	rows  model.Range
	end   string
	read  int // rows
	cells []model.Entry
}

// run walks through the rows of r.
func (w *tableWalk) run(ctx context.Context, r model.Range) error {
	w.finished = map[int]finishedBatch{}
	w.slots, w.turn = make(chan struct{}, batchesAhead*w.concurrency), make(chan struct{}, 1)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.concurrency)
	err := w.readAhead(gctx, g, r)
	if werr := g.Wait(); werr != nil { // the reader may only have been stopped by it
		return werr
	}
	return err
}

func (w *tableWalk) readAhead(ctx context.Context, g *errgroup.Group, r model.Range) error {
	for i := 0; ; i++ {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return retry.WithContext(ctx, ctx.Err())
		}
		b, err := w.readRetrying(ctx, r)
		if err != nil {
			return err
		}
		if err := w.slowDown(ctx, b.read); err != nil {
			return err
		}
		g.Go(func() error { return w.finish(ctx, i, b) })
		if b.end == r.End {
			return nil
		}
		r.Start = b.end
		if err := retry.Sleep(ctx, w.pause); err != nil {
			return err
		}
	}
}

// readRetrying reads the first batch of r, again after transient failures.
func (w *tableWalk) readRetrying(ctx context.Context, r model.Range) (walkBatch, error) {
	retry := retry.NewTransient()
	for {
		b, err := w.read(ctx, r, w.rows)
		if err == nil {
			return b, w.over()
		}
		if err := retry.After(ctx, err); err != nil {
			return b, err
		}
	}
}

// read begins a transaction and reads up to limit rows of r in its snapshot, with locks resolved.
// Where few rows have the column, the batch may have none: then it only ends further on.
func (w *tableWalk) read(ctx context.Context, r model.Range, limit int) (walkBatch, error) {
	tx, err := w.e.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return walkBatch{}, err
	}
	b := walkBatch{tx: tx, rows: r, end: r.End}
	q := w.query(tx.StartTimestamp())
	page, err := w.e.Store.ReadPage(ctx, w.table, r, q, store.PageSize{Rows: limit, Bytes: reads.ScanPages.Bytes})
	rows := reads.SeenIn(w.table, page)
	if err == nil {
		err = w.e.Reads.FinishPage(ctx, tx.StartTimestamp(), w.table, reads.Scanned{Rows: catalog.Union(r), AllColumns: q.AllColumns()}, rows)
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
	b.rows.End, b.read = b.end, len(rows)
	for _, row := range rows {
		b.cells = append(b.cells, row.Entries...)
	}
	return b, nil
}

// finish applies a batch and reports it.
func (w *tableWalk) finish(ctx context.Context, i int, b walkBatch) error {
	n, err := w.apply(ctx, b.tx, b.cells)
	if err != nil {
		again, err := w.redo(ctx, b, err)
		if err != nil {
			return err
		}
		again.writes += n.writes
		n = again
	}
	return w.report(ctx, i, finishedBatch{b.end, n})
}

// slowDown waits until so many rows more may be read.
func (w *tableWalk) slowDown(ctx context.Context, rows int) error {
	if w.rate == nil || rows == 0 {
		return nil
	}
	if err := w.rate.WaitN(ctx, rows); err != nil {
		return retry.WithContext(ctx, err)
	}
	return nil
}

// redo goes through the rows of a batch again in new snapshots, with fewer rows a transaction after
// each failure and more again after each success.
func (w *tableWalk) redo(ctx context.Context, failed walkBatch, err error) (total walkCounts, _ error) {
	again := retry.NewTransient()
	rows, limit := failed.rows, w.rows
	for {
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
		var n walkCounts
		if b, err = w.read(ctx, rows, limit); err == nil {
			if err := w.over(); err != nil {
				return total, err
			}
			n, err = w.apply(ctx, b.tx, b.cells)
			total.writes += n.writes
		}
		if err != nil {
			continue
		}
		total.cells += n.cells
		if rows.Start = b.end; b.end == failed.end {
			return total, nil
		}
		again, limit = retry.NewTransient(), min(2*limit, w.rows)
	}
}

// report hands finished batches on in row order.
func (w *tableWalk) report(ctx context.Context, i int, b finishedBatch) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return retry.WithContext(ctx, ctx.Err())
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

// nextTimestamp asks the oracle, again after transient failures.
func nextTimestamp(ctx context.Context, e *engine.Engine) (tso.Timestamp, error) {
	for again := retry.NewTransient(); ; {
		ts, err := e.Clock.Next(ctx)
		if err == nil {
			return ts, nil
		}
		if err := again.After(ctx, err); err != nil {
			return 0, err
		}
	}
}
