// Package sweep passes over all tables for what the journal does not lead to, and adds that to the
// journal. It stands above packages engine and gc. Its one idea: nothing waits for it, so it may be
// as slow as the operator likes.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// The journal leads to all that is unfinished and to all garbage (docs/internals/PROTOCOL.md, "The
// journal"). A sweep serves two ends. It builds the journal of an instance that has worked without
// one:
//
//	drain   wait until every client knows of the journal and no commit of one that did not is under
//	        way: from then on every commit has an entry
//	rows    announce each row that holds a lock, a notification, or anything that becomes garbage
//	        without another commit (J2); then resolve its locks and dispatch its notifications
//	ready   publish that for safepoints from now on collection can go by the journal
//
// And now and then it looks whether the journal is as good as its rules say: of what it finds, it
// deals with, and counts as missed, what is still there when it is read again, is older than an
// hour, and is named by no entry.
//
// A roll forward writes a notification, so the row is announced first. What is announced has an
// entry of a present timestamp; a collector whose safepoint is below it goes on by passes
// (model.JournalState.Since).
//
// One sweep works at a time, by a lease. So it needs no locks of rows, and evades no one: the
// scanners of the paper's workers lock rows, and jump to another place when they meet each other,
// because many of them search the same tables at once. It begins at a random place, so that sweeps
// that never come to their end leave no part of the tables out.
//
// Rejected: sweeping beside the passes of the collector. They read only what is garbage at the
// watermark of now, and the journal has to know what will be.

func withDefaults(cfg model.SweepConfig) (model.SweepConfig, error) {
	cfg.Interval = cmp.Or(cfg.Interval, 7*24*time.Hour)
	cfg.Lease = cmp.Or(cfg.Lease, time.Minute)
	cfg.RowsPerSecond = cmp.Or(cfg.RowsPerSecond, 5_000)
	if cfg.Progress == nil {
		cfg.Progress = func(model.Sweep) {}
	}
	if cfg.Interval < time.Second || cfg.Lease < time.Second || cfg.RowsPerSecond < 0 {
		return cfg, fmt.Errorf("percolator: %w: SweepConfig: Interval and Lease must be at least 1 s, RowsPerSecond positive", model.ErrInvalidArgument)
	}
	return cfg, nil
}

// Sweeper sweeps an instance. Its methods may be called concurrently; there may be many sweepers of
// one instance.
type Sweeper struct {
	e    *engine.Engine
	cfg  model.SweepConfig
	pace *rate.Limiter
}

// New returns a sweeper of the client's instance. ErrInvalidArgument: cfg.
func New(e *engine.Engine, cfg model.SweepConfig) (*Sweeper, error) {
	cfg, err := withDefaults(cfg)
	if err != nil {
		return nil, err
	}
	return &Sweeper{e: e, cfg: cfg, pace: rate.NewLimiter(rate.Limit(cfg.RowsPerSecond), pageSize.Rows)}, nil
}

const (
	// looksPerInterval is how often Run asks whether a sweep is due.
	looksPerInterval = 200
	// buildsWithin is how soon it begins to build a journal, at most.
	buildsWithin = 30 * time.Second
)

// Run sweeps when it is due until ctx ends, and then returns nil; ErrClosed when the client is
// closed. It logs a sweep that fails, and continues it after a pause. An instance whose journal is
// disabled is left alone.
func (w *Sweeper) Run(ctx context.Context) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	ctx, end := w.e.WhileOpen(ctx)
	defer end()
	every := max(w.cfg.Interval/looksPerInterval, time.Second)
	tick, asked := min(every, buildsWithin), time.Time{}
	for retry.Sleep(ctx, tick/2+rand.N(tick/2)) == nil {
		building := w.e.Meta.Journaled() && !w.e.Meta.ByJournal() // as far as this client knows
		if !building && time.Since(asked) < every {
			continue
		}
		asked = time.Now()
		due, err := w.due(ctx)
		var done model.Sweep
		if err == nil && due {
			done, err = w.Sweep(ctx)
		}
		w.log(ctx, due, done, err)
	}
	if w.e.Store.Closed.Load() {
		return fmt.Errorf("percolator: sweeper: %w", model.ErrClosed)
	}
	return nil
}

func (w *Sweeper) log(ctx context.Context, due bool, done model.Sweep, err error) {
	log := w.e.Config.Logger
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, model.ErrLeased):
		log.Debug("sweep: nothing to do here", "err", err)
	case err != nil:
		w.e.Store.Warn(log, "sweep stopped, and is continued later", err, "phase", done.Phase, "table", done.Table)
	case due && done.Missed.Sum() > 0:
		log.Error("swept, and found what the journal has missed", "locks", done.Missed.Locks, "notifications", done.Missed.Notifications, "garbage", done.Missed.Garbage)
	case due:
		log.Info("swept", "rows", done.Rows, "announced", done.Announced, "locks", done.Locks, "notifications", done.Notifications)
	}
}

// due reports whether the journal is building, a sweep was broken off, or the last one began an
// interval ago.
func (w *Sweeper) due(ctx context.Context) (bool, error) {
	m, err := w.e.Meta.Refresh(ctx)
	if err != nil || !w.e.Meta.Journaled() {
		return false, err
	}
	now, err := w.e.Clock.Next(ctx)
	if err != nil {
		return false, err
	}
	st, err := leased.Read(ctx, w.e)
	return m.Journal.Building != "" || st.Phase != model.SweepDone || now.Sub(st.Started) >= w.cfg.Interval, err
}

// Sweep sweeps all tables now, or finishes a sweep that another process left behind, and tells what
// it did. Of a journal that is building it first waits for the drain, 80 s with the default Timing,
// and at the end the journal is ready.
//
// Errors: ErrSchemaMismatch if the journal is disabled; ErrLeased if another process sweeps;
// ErrConflict if the journal was turned off meanwhile; ErrCorrupt for an entry that cannot be
// decoded; those of the store. The next sweep continues where this one failed.
func (w *Sweeper) Sweep(ctx context.Context) (model.Sweep, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return model.Sweep{}, err
	}
	open, end := w.e.WhileOpen(store.InBackground(ctx))
	defer end()
	open, span := w.e.Store.Trace.Start(open, "percolator.sweep", "")
	done, err := w.sweep(open)
	span.End(err)
	return done, w.e.OrClosed(ctx, err)
}

// sweep takes the lease, and does what is left of a sweep or all of a new one.
func (w *Sweeper) sweep(ctx context.Context) (model.Sweep, error) {
	m, err := w.e.Meta.Refresh(ctx)
	switch {
	case err != nil:
		return model.Sweep{}, err
	case !w.e.Meta.Journaled():
		return model.Sweep{}, fmt.Errorf("percolator: %w: the schema disables the journal", model.ErrSchemaMismatch)
	}
	if err := m.RefuseRepair(); err != nil {
		return model.Sweep{}, err
	}
	s, err := w.acquire(ctx)
	if err != nil {
		return model.Sweep{}, err
	}
	defer s.release(ctx)
	if s.state.Phase == "" || s.state.Phase == model.SweepDone || s.state.Building != m.Journal.Building {
		if err := s.begin(ctx, m.Journal.Building); err != nil {
			return s.state.Sweep, err
		}
	}
	err = s.finish(ctx)
	return s.state.Sweep, err
}

// Read reads how far the last sweep has come, in any process.
func Read(ctx context.Context, e *engine.Engine) (model.Sweep, error) {
	st, err := leased.Read(ctx, e)
	return st.Sweep, err
}
