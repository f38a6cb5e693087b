package sweep

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/internal/gc"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	resolveAtOnce = 16
	// missedAfter is how old work is before the journal should have led to it: owners look at their
	// entries, and workers at those of the dead, every few minutes.
	missedAfter = time.Hour
	// maxFound is how many findings wait to be looked at again: each time the journal is read.
	maxFound = 1000
)

// finding is a row with something to deal with.
type finding struct {
	table, key string
	locks      []model.Lock
	owed       []model.Notification
	parked     []model.ObserverState
	garbage    bool // or what becomes garbage
	stray      bool // the garbage is that of transactions that never committed
}

func (f finding) empty() bool {
	return len(f.locks)+len(f.owed)+len(f.parked) == 0 && !f.garbage && !f.stray
}

// limits say what of a row counts. The zero value is for building: everything does.
type limits struct {
	checks  bool
	oldest  tso.Timestamp // work counts that is older
	garbage tso.Timestamp // the watermark of a completed cycle; 0: garbage does not count
}

// limits returns those of this sweep.
func (s *sweeping) limits(ctx context.Context) (l limits, err error) {
	if s.state.Building != "" {
		return l, nil
	}
	now, err := s.e.Clock.Next(ctx)
	if err != nil {
		return l, err
	}
	completed, err := gc.Completed(ctx, s.e)
	return limits{true, now.Add(-missedAfter), completed}, err
}

// page deals with the rows of a page, or keeps what is to be looked at again.
func (s *sweeping) page(ctx context.Context, table string, lim limits, rows []layout.Row) error {
	s.state.Rows += int64(len(rows))
	var list []finding
	for _, row := range rows {
		f, corrupt := s.judge(table, row, lim)
		s.state.Corrupt += int64(corrupt)
		if !f.empty() {
			list = append(list, f)
		}
	}
	if !lim.checks {
		return s.deal(ctx, list)
	}
	s.found, s.held = append(s.found, list...), s.held+len(rows)
	if len(s.found) < maxFound && s.held < maxHeld {
		return nil
	}
	return s.lookAgain(ctx)
}

// judge decides what of a row counts, and how many of its cells cannot be decoded.
func (s *sweeping) judge(table string, row layout.Row, lim limits) (f finding, corrupt int) {
	f = finding{table: table, key: row.Key}
	info, known := s.e.Meta.Catalog.Load().Tables[table]
	if !known { // it was dropped since the page was asked for
		return f, 0
	}
	p, versions := layout.DecodePending(table, row), layout.DecodeRow(table, row)
	for _, v := range versions {
		if v.Corrupt != nil {
			corrupt++
		}
	}
	for _, l := range p.Locks {
		if !lim.checks || l.Placed < lim.oldest {
			f.locks = append(f.locks, l)
		}
	}
	for _, n := range p.Notified {
		if (info.IsObserved[n.Cell.Column] || info.IsWeak[n.Cell.Column]) && (!lim.checks || n.Timestamp < lim.oldest) && !p.OnlyParked(n) {
			f.owe(n)
		}
	}
	switch {
	case !lim.checks:
		f.garbage, f.parked = gc.MayBecomeGarbage(versions) || len(p.States) > 0, parkedIn(p)
	case lim.garbage > 0:
		f.garbage, f.stray = gc.Left(versions, lim.garbage)
	}
	return f, corrupt
}

// owe notes the newest notification of a cell: its run also deals with the older ones.
func (f *finding) owe(n model.Notification) {
	at := slices.IndexFunc(f.owed, func(o model.Notification) bool { return o.Cell == n.Cell })
	if at < 0 {
		f.owed = append(f.owed, n)
		return
	}
	f.owed[at].Timestamp = max(f.owed[at].Timestamp, n.Timestamp)
}

// deal announces rows, resolves their locks and dispatches their notifications.
func (s *sweeping) deal(ctx context.Context, list []finding) error {
	if len(list) == 0 {
		return nil
	}
	work, rows := false, make([]model.JournalName, len(list))
	for i, f := range list {
		rows[i] = model.JournalName{Table: f.table, Key: f.key, Weak: len(f.locks)+len(f.owed) > 0}
		work = work || rows[i].Weak
	}
	a, err := s.e.Commits.Announce(ctx, rows)
	if err != nil {
		return err
	}
	if !work { // else the owner looks at the rows until nothing is left to do
		s.e.Commits.Done(a)
	}
	s.state.Announced += int64(len(list))
	if err := s.listParked(ctx, list); err != nil {
		return err
	}
	if err := s.resolve(ctx, list, a.Deadline); err != nil {
		return err
	}
	for _, f := range list {
		for _, n := range f.owed {
			s.e.Dispatch.Notified(n)
			s.state.Notifications++
		}
		s.countMissed(f)
	}
	return nil
}

// countMissed counts what the journal of an instance should have led to; locks are counted when
// they are resolved.
func (s *sweeping) countMissed(f finding) {
	if s.state.Building != "" {
		return
	}
	s.state.Missed.Notifications += int64(len(f.owed))
	s.e.Store.Count.FoundBySweep.Add(int64(len(f.owed)))
	if f.garbage {
		s.state.Missed.Garbage++
		s.e.Store.Count.FoundBySweep.Add(1)
	}
	if f.stray {
		s.state.Orphans++
	}
}

// resolve resolves the locks of rows that were announced, until the deadline: what is left then the
// collector resolves.
func (s *sweeping) resolve(ctx context.Context, list []finding, deadline time.Time) error {
	// Nothing renews the lease meanwhile.
	ctx, cancel := context.WithDeadline(ctx, minTime(deadline, time.Now().Add(s.cfg.Lease/2)))
	defer cancel()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(resolveAtOnce)
	for _, f := range list {
		for _, l := range f.locks {
			g.Go(func() error {
				r, err := s.resolveLock(ctx, l)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, model.ErrCorrupt):
					s.state.Corrupt++
					return nil // one bad lock does not keep the others
				case r == model.LockRolledForward, r == model.LockRolledBack:
					s.state.Locks++
				}
				switch {
				case s.state.Building != "":
				case r == model.LockRolledForward:
					s.state.Missed.Locks++
					s.e.Store.Count.FoundBySweep.Add(1)
				case r == model.LockRolledBack:
					s.state.Orphans++
				}
				return err
			})
		}
	}
	return g.Wait()
}

// resolveLock resolves a lock. While the journal is building it waits for the end of its
// transaction: one from before the drain never commits, and no entry names it.
func (s *sweeping) resolveLock(ctx context.Context, l model.Lock) (model.Resolution, error) {
	pause := retry.NewBackoff(locks.MinLockWait, time.Second)
	for {
		r, err := s.e.Locks.ResolveLock(ctx, l)
		switch {
		case ctx.Err() != nil:
			// The deadline has passed, or the caller's context has ended, as the next request
			// shows.
			return model.LockAlive, nil
		case err != nil || r != model.LockAlive || s.state.Building == "":
			return r, err
		}
		if pause.Wait(ctx) != nil {
			return model.LockAlive, nil
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
