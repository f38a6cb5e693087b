package observers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	pageTimeout   = 30 * time.Second // for what is done about one page
	eraseTimeout  = 10 * time.Second // for erasing what is finished
	oracleTimeout = 10 * time.Second // for the oracle's time
	resolveAtOnce = 8                // stranded locks of a page
)

// scanner searches the observed tables, again and again, for dirty cells and for locks of dead
// transactions (section 2.4 of the paper). internal/scanning decides how it goes through them; what
// it reads and does is here.
type scanner struct {
	*Worker
	walk scanning.Scanner
	pace scanning.Pace
	asOf uint64 // of the queue, when the page in hand was read
	seen *pass
}

func newScanner(w *Worker) *scanner {
	random := newRandom()
	s := &scanner{Worker: w, seen: w.lag.newPass(), pace: scanning.Pace{Fixed: w.cfg.ScanInterval, Random: random}}
	s.walk = scanning.Scanner{
		Source: s, Tables: w.coverage.tables, Places: w.places, Rows: w.rows, Remote: w.remote, Counts: &w.counters.scans,
		Now: time.Now, Random: random,
	}
	if w.members != nil {
		s.walk.Shares = w.members.share
	}
	return s
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// run searches until ctx ends. A closed client stops the worker.
func (s *scanner) run(ctx context.Context, stop context.CancelCauseFunc) {
	defer s.seen.leave()
	for ctx.Err() == nil {
		foundNew, read, err := s.walk.Search(ctx)
		s.seen.end(err == nil)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, percolator.ErrClosed) {
			stop(err)
			return
		}
		if err != nil {
			s.engine.Store.Warn(s.log, "observers: a search failed, and is repeated", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.pace.Next(foundNew && err == nil && !s.queue.saturated(), read)):
		case <-s.queue.room.missed: // something was dropped and there is room for it again
			s.pace.Reset()
		}
	}
}

// ReadPage implements scanning.Source.
func (s *scanner) ReadPage(ctx context.Context, table string, r percolator.Range, most int, visit func(row string) bool) (scanning.Page, error) {
	if !s.hasTable(table) {
		return scanning.Page{}, nil
	}
	s.asOf = s.queue.asOf()
	page, err := s.engine.Reads.ReadPending(store.InBackground(ctx), table, r, most, scanning.Turn)
	for i, row := range page.Rows {
		if !visit(row.Row) {
			return scanning.Page{Rows: page.Rows[:i], Met: true}, nil
		}
	}
	return scanning.Page{Rows: page.Rows, More: page.More, Next: page.Rest.Start}, err
}

// Work implements scanning.Source: it queues the dirty cells of a page and resolves its stranded
// locks. It waits while the queue is full. inQueue: most of the page waits for its run already;
// parked cells do not count.
func (s *scanner) Work(ctx context.Context, rows []model.Pending) (foundNew, inQueue bool) {
	foundNew = s.resolveStranded(ctx, rows) > 0
	waits := 0
	page := s.newPage()
	defer func() { s.seen.add(page.met) }()
	for _, row := range rows {
		for _, c := range row.Corrupt { // for people to look at; everything else in the row goes on
			s.counters.corrupt.Add(1)
			s.log.Debug("observers: a cell cannot be decoded", "table", c.Table, "row", c.Row, "column", c.Column)
		}
		for _, l := range row.Locks {
			page.lock(l)
		}
		states := s.statesOf(row)
		s.forgetObserverStates(ctx, row)
		for _, n := range row.Notified {
			stored, from := &storedStates{s.asOf, states[n.Cell.Column]}, s.metBy(n, 0)
			v := s.enqueueFound(ctx, n, stored, from)
			for v == full && s.queue.awaitRoom(ctx) {
				v = s.enqueueFound(ctx, n, stored, from)
			}
			page.notification(n.Timestamp, v)
			switch v {
			case accepted, joined:
				foundNew = true
			case known:
				waits++
			case full, refused: // the worker is stopping
				return foundNew, false
			}
		}
	}
	return foundNew, waits > len(rows)/2
}

// enqueueFound queues a notification read from a table, with the stored states of its column's
// observers, unless it is contested. It erases a finished one, repeatedly if need be.
func (w *Worker) enqueueFound(ctx context.Context, n model.Notification, stored *storedStates, from source) verdict {
	w.heedRepairs(ctx)
	v, upTo := w.enqueue(n, arrival{from: from, stored: stored})
	switch v {
	case accepted, joined:
		w.counters.found.Add(1)
	case finished:
		ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
		defer cancel()
		w.erase(ctx, model.Notification{Cell: n.Cell, Timestamp: upTo})
	}
	return v
}

// resolveStranded resolves the locks in rows that are past their time to live, and returns how
// many. A crash between the commit point and a secondary leaves an observed cell without its
// notification. The roll-forward writes the notification in the mutation of the write record
// (docs/internals/PROTOCOL.md, I10), and the client then dispatches it. No reader is needed.
//
// ResolveLock judges whether a transaction is dead. The time to live only avoids asking about every
// commit in flight.
func (w *Worker) resolveStranded(ctx context.Context, rows []model.Pending) int64 {
	locks := w.expired(ctx, rows)
	if len(locks) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	var resolved atomic.Int64
	var group errgroup.Group
	group.SetLimit(resolveAtOnce)
	for _, l := range locks {
		group.Go(func() error {
			switch r, err := w.engine.Locks.ResolveLock(ctx, l); {
			case err != nil:
				w.engine.Store.Warn(w.log, "observers: a stranded lock could not be resolved", err, "table", l.Cell.Table, "column", l.Cell.Column)
			case r == model.LockRolledForward, r == model.LockRolledBack:
				resolved.Add(1)
			}
			return nil // one bad lock does not keep the others
		})
	}
	_ = group.Wait()
	w.counters.resolved.Add(resolved.Load())
	return resolved.Load()
}

// expired returns the locks in rows that are past their time to live by oracle time, the only clock
// that locks are compared with. Without locks it does not ask the oracle.
func (w *Worker) expired(ctx context.Context, rows []model.Pending) []model.Lock {
	var locks []model.Lock
	var now tso.Timestamp
	for _, row := range rows {
		for _, l := range row.Locks {
			if now == 0 {
				var err error
				if now, err = w.oracleTime(ctx); err != nil {
					return nil // next time
				}
			}
			if l.Overdue(now) > 0 {
				locks = append(locks, l)
			}
		}
	}
	return locks
}

func (w *Worker) oracleTime(ctx context.Context) (tso.Timestamp, error) {
	ctx, cancel := context.WithTimeout(ctx, oracleTimeout)
	defer cancel()
	return w.engine.Clock.Next(ctx)
}

// unfinished reports which of rows have cells that run or wait for their first attempt: the worker
// keeps other workers' scanners off these (section 2.4 of the paper). Cells that wait for another
// attempt do not count: they may wait long, and another worker may succeed.
func (w *Worker) unfinished(rows []layout.RowID) []bool {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	out := make([]bool, len(rows))
	for i, r := range rows {
		for _, col := range w.columns[r.Table] {
			if e := col.cells[r.Key]; e != nil && (e.class != waiting || e.state == stateRunning) {
				out[i] = true
			}
		}
	}
	return out
}
