package observers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

const (
	pageRows      = 1024             // rows read before they are worked on, as many as ScanPending has in one request
	pageCells     = 16384            // notifications and locks in those rows
	pageWithin    = 30 * time.Second // for one page
	maxTeleports  = 4                // in one pass through a table
	queuedPages   = 2                // pages in a row that are in the queue already, after which a pass ends
	settleWithin  = 10 * time.Second // for erasing what is settled
	afterLastRow  = "\x00"
	resolveAtOnce = 8 // stranded locks of a page
)

// scanner searches the observed tables for dirty cells, and for locks that dead transactions left (section 2.4 of the
// paper). It starts at a random place, goes to the end of the table and on from its beginning. It reads a page, queues what
// it found, and reads the next page when there is room for more, so it is no faster than the runs; two workers that began at
// different places share the work.
type scanner struct {
	*Worker
	pace   pace
	remote *remoteLocks
	read   time.Duration // spent on reading pages in this search
}

func newScanner(w *Worker) *scanner {
	return &scanner{Worker: w, pace: pace{fixed: w.cfg.ScanInterval}, remote: newRemoteLocks(w.cfg.RowLocks)}
}

// run searches until ctx ends. Without a client there is nothing to search: that stops the worker.
func (s *scanner) run(ctx context.Context, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		s.read = 0
		foundNew, err := s.search(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, percolator.ErrClosed) {
			stop(err)
			return
		}
		if err != nil {
			s.log.Warn("observers: a search failed, and is repeated")
			s.log.Debug("observers: a search failed", "err", err)
		}
		timer := time.NewTimer(s.pace.next(foundNew && err == nil && !s.queue.saturated(), s.read))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.queue.missed: // something was dropped and there is room for it again
			s.pace.reset()
		}
		timer.Stop()
	}
}

// search goes once through all observed tables, in random order.
func (s *scanner) search(ctx context.Context) (foundNew bool, err error) {
	s.counters.searches.Add(1)
	tables := s.coverage.tables
	for _, i := range rand.Perm(len(tables)) {
		found, err := s.pass(ctx, tables[i])
		foundNew = foundNew || found
		if err != nil {
			return foundNew, err
		}
	}
	return foundNew, nil
}

// pass goes once through a table, from a random place and around.
func (s *scanner) pass(ctx context.Context, table string) (foundNew bool, err error) {
	for range maxTeleports {
		start := s.places.pick(ctx, table)
		found, met, err := s.sweep(ctx, table, percolator.Between(start, ""))
		if err == nil && !met && start != "" {
			var again bool
			again, met, err = s.sweep(ctx, table, percolator.Between("", start))
			found = found || again
		}
		foundNew = foundNew || found
		if err != nil || !met {
			return foundNew, err
		}
		s.counters.teleports.Add(1)
	}
	return foundNew, nil
}

// sweep goes through a part of a table, page by page. met: another scanner is there.
func (s *scanner) sweep(ctx context.Context, table string, r percolator.Range) (foundNew, met bool, err error) {
	queued := 0
	for {
		p, err := s.readLocked(ctx, table, r)
		found, inQueue := s.work(ctx, p)
		s.remote.unlock(ctx, p.rows)
		s.release(p)
		foundNew = foundNew || found
		if err != nil || p.met || !p.more {
			return foundNew, p.met, err
		}
		if queued++; found || !inQueue {
			queued = 0
		}
		if queued == queuedPages { // the queue is well ahead of us here, and will be for a while
			return foundNew, false, nil
		}
		r.Start = p.rows[len(p.rows)-1].Row + afterLastRow
	}
}

// page is a number of consecutive rows that carry something, locked against other scanners.
type page struct {
	rows []percolator.Pending
	more bool // there may be more behind the last row
	met  bool // the row behind the last one is locked by another scanner
}

// readLocked reads a page and locks its rows. With an error it returns what it read before.
func (s *scanner) readLocked(ctx context.Context, table string, r percolator.Range) (page, error) {
	begun := time.Now()
	defer func() { s.read += time.Since(begun) }()
	p, err := s.readPage(ctx, table, r, func(row string) bool {
		if !s.rows.tryLock(table, row) {
			return false
		}
		s.places.met(table, row)
		s.counters.rows.Add(1)
		return true
	})
	if n := s.remote.lock(ctx, p.rows); n < len(p.rows) {
		s.release(page{rows: p.rows[n:]})
		p.rows, p.met = p.rows[:n], true
	}
	return p, err
}

// readPage reads at most a page from the beginning of r; visit, if any, says for each row whether to go on with it.
func (w *Worker) readPage(ctx context.Context, table string, r percolator.Range, visit func(row string) bool) (p page, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	cells := 0
	for row, err := range w.client.ScanPending(ctx, table, r) {
		if err != nil {
			return p, err
		}
		if visit != nil && !visit(row.Row) {
			p.met = true
			return p, nil
		}
		p.rows = append(p.rows, row)
		if cells += len(row.Notified) + len(row.Locks); len(p.rows) == pageRows || cells >= pageCells {
			p.more = true
			return p, nil
		}
	}
	return p, nil
}

func (s *scanner) release(p page) {
	for _, row := range p.rows {
		s.rows.unlock(row.Table, row.Row)
	}
}

// work queues what is dirty in a page and settles what is stranded. It waits while the queue is full. inQueue: most of the
// page waits for its turn already (what is parked does not).
func (s *scanner) work(ctx context.Context, p page) (foundNew, inQueue bool) {
	foundNew = s.resolveStranded(ctx, p.rows) > 0
	inTurn := 0
	for _, row := range p.rows {
		for _, c := range row.Corrupt { // for people to look at; everything else in the row goes on
			s.counters.corrupt.Add(1)
			s.log.Debug("observers: a cell cannot be decoded", "table", c.Table, "row", c.Row, "column", c.Column)
		}
		for _, n := range row.Notified {
			v := s.offerFound(ctx, n)
			for v == full && s.queue.awaitRoom(ctx) {
				v = s.offerFound(ctx, n)
			}
			switch v {
			case accepted, joined:
				foundNew = true
			case known:
				inTurn++
			case full, refused: // the worker is stopping
				return foundNew, false
			}
		}
	}
	return foundNew, inTurn > len(p.rows)/2
}

// offerFound queues a notification that was read from a table. What is done already is erased, once more if need be.
func (w *Worker) offerFound(ctx context.Context, n percolator.Notification) verdict {
	col := w.coverage.taken[Column{n.Cell.Table, n.Cell.Column}]
	if col == nil {
		return foreign
	}
	v, upTo := w.queue.offer(col, n.Cell.Row, n.Timestamp, found)
	switch v {
	case accepted, joined:
		w.counters.found.Add(1)
	case settled:
		ctx, cancel := context.WithTimeout(ctx, settleWithin)
		defer cancel()
		if err := w.client.ClearNotification(ctx, n.Cell, upTo); err != nil {
			w.log.Debug("observers: a notification was not erased", "table", n.Cell.Table, "row", n.Cell.Row, "column", n.Cell.Column, "err", err)
		}
	}
	return v
}
