// Package gc removes versions that no snapshot can read any more. It stands above package engine
// and knows locks, metadata and storage. Its one idea: garbage stays garbage, so a collector may
// stop anywhere and another one may repeat its work.
package gc

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

// Bigtable keeps every version until a client deletes it, and none of its policies can tell which
// ones are still needed. The collector can, in cycles of five steps whose order is the whole point
// (docs/internals/PROTOCOL.md, "Collection"):
//
//	announce   safepoint ← now − retention, below every hold; clients refuse reads at or below it
//	drain      wait until no client acts on an older safepoint and no earlier request is in flight
//	resolve    resolve every lock up to the safepoint
//	publish    GC watermark ← safepoint; no collector ever removes anything newer
//	erase      remove from each row what no snapshot above the GC watermark reads
//
// Which rows those are the journal tells (journal.go), or passes over all tables find (tables.go).
//
// Without the drain a late duplicate of a prewrite could bring a deleted cell back to life, and a
// reader that has not heard of the safepoint would silently miss data. Without the resolution,
// removing the record on a primary would turn a committed transaction into one that is half rolled
// back.
//
// One collector works at a time, by a lease. That saves work and nothing else: what is garbage once
// stays garbage, so a collector that was stopped in the middle and continues beside its successor
// does no harm.
//
// Rejected: collecting in the background of every client, as its reads pass by old versions. It
// needs no scan, but only reaches what is read, and it would put deletions on the path of
// foreground requests.

func withDefaults(cfg model.CollectorConfig, retention time.Duration) (model.CollectorConfig, error) {
	cfg.Interval = cmp.Or(cfg.Interval, max(retention/12, time.Second))
	cfg.Lease = cmp.Or(cfg.Lease, time.Minute)
	cfg.RowsPerSecond = cmp.Or(cfg.RowsPerSecond, 5_000)
	if cfg.Progress == nil {
		cfg.Progress = func(model.Collection) {}
	}
	if cfg.Waiting == nil {
		cfg.Waiting = func(time.Duration) {}
	}
	if cfg.Interval < time.Second || cfg.Lease < time.Second || cfg.RowsPerSecond < 0 {
		return cfg, fmt.Errorf("percolator: %w: CollectorConfig: Interval and Lease must be at least 1 s, RowsPerSecond positive", model.ErrInvalidArgument)
	}
	return cfg, nil
}

// Collector removes versions that no snapshot can read any more. Its methods may be called
// concurrently; there may be many collectors of one instance.
type Collector struct {
	e    *engine.Engine
	cfg  model.CollectorConfig
	pace *rate.Limiter
}

// NewCollector returns a collector of the client's instance. Workers (package observers) run one by
// themselves. ErrInvalidArgument: cfg.
func NewCollector(e *engine.Engine, cfg model.CollectorConfig) (*Collector, error) {
	if e == nil {
		return nil, fmt.Errorf("percolator: %w: NewCollector needs a client", model.ErrInvalidArgument)
	}
	cfg, err := withDefaults(cfg, e.Config.Retention)
	if err != nil {
		return nil, err
	}
	return &Collector{e: e, cfg: cfg, pace: rate.NewLimiter(rate.Limit(cfg.RowsPerSecond), collectRows)}, nil
}

// Run collects until ctx ends, and then returns nil; ErrClosed when the client is closed. It begins
// after a random pause, so that processes that start together do not all try at once. It logs a
// cycle that fails, and continues it after the next pause.
func (g *Collector) Run(ctx context.Context) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.e.Store.Background.Done():
			return fmt.Errorf("percolator: collector: %w", model.ErrClosed)
		case <-time.After(g.cfg.Interval/2 + rand.N(g.cfg.Interval/2)):
		}
		col, err := g.Collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, model.ErrClosed):
			return err
		case errors.Is(err, model.ErrLeased):
			g.e.Config.Logger.Debug("collection: nothing to do here", "err", err)
		case err != nil:
			g.e.Store.Warn(g.e.Config.Logger, "collection stopped, and is continued later", err, "phase", col.Phase, "table", col.Table)
		default:
			g.e.Config.Logger.Info("collected", "phase", col.Phase, "safepoint", col.Safepoint.Time(), "rows", col.Rows, "versions", col.Versions, "tombstones", col.Tombstones, "locks", col.Locks, "postponed", col.Postponed)
		}
	}
}

// Collect runs one cycle now, after finishing one that another collector left behind, and tells
// what it did. It takes at least the drain, 80 s with the default Timing, unless there is nothing
// new to collect.
//
// Where work and garbage are found by the journal, collectors share the resolution of locks and the
// erasing: beside another one's cycle Collect takes part in them, as long as there is anything to
// take, and returns what it did itself, with the other's name as the holder, in CollectionErase, or
// in CollectionResolve if it has not seen the watermark published.
//
// Errors: ErrLeased if another collector has the lease and nothing to share; ErrLocked if a
// transaction older than the retention is still alive; ErrConflict if holds are taken too often to
// announce a safepoint; ErrCorrupt for a lock that cannot be resolved, because what it may depend
// on must not be removed; those of the store. The next cycle continues where this one failed.
func (g *Collector) Collect(ctx context.Context) (model.Collection, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return model.Collection{}, err
	}
	open, end := g.e.WhileOpen(store.InBackground(ctx))
	defer end()
	open, span := g.e.Store.Trace.Start(open, "percolator.collect", "")
	col, err := g.collect(open)
	g.ended(col, err)
	span.End(err)
	return col, g.e.OrClosed(ctx, err)
}

// ended counts a cycle, unless it is another collector's.
func (g *Collector) ended(col model.Collection, err error) {
	switch {
	case errors.Is(err, model.ErrLeased):
	case err == nil && (col.Phase == model.CollectionResolve || col.Phase == model.CollectionErase):
	case err == nil:
		g.e.Store.Count.Cycles.Add(1)
	default:
		g.e.Store.Count.CyclesFailed.Add(1)
	}
}

func (g *Collector) collect(ctx context.Context) (model.Collection, error) {
	s, err := g.acquire(ctx)
	if errors.Is(err, model.ErrLeased) {
		return g.help(ctx, s.state.Collection, err)
	}
	if err != nil {
		return model.Collection{}, err
	}
	defer s.release(ctx)
	if s.state.Phase == model.CollectionResolve || s.state.Phase == model.CollectionErase {
		if err := s.finish(ctx); err != nil {
			return s.state.Collection, err
		}
	}
	started, err := s.begin(ctx)
	switch {
	case err != nil:
	case started:
		err = s.finish(ctx)
	case !s.e.Meta.Catalog.Load().Schema.DisableJournal: // a hold may last for days
		err = WhileLeased(ctx, s.cfg.Lease, s.keep, s.listHeaderless)
	}
	return s.state.Collection, err
}

// ReadCollection reads how far collection has come, in any process.
func ReadCollection(ctx context.Context, e *engine.Engine) (model.Collection, error) {
	st, err := collectorLease.Read(ctx, e)
	return st.Collection, err
}
