package gc

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// streamsAtOnce is how many streams are read at once while locks are resolved. Of each, up to
// store.PassBytes are in memory.
const streamsAtOnce = 8

// resolving resolves the locks that entries up to the safepoint lead to. In which order does not
// matter: all are resolved before the watermark is published. It is safe for concurrent use.
type resolving struct {
	*Collector
	safepoint tso.Timestamp
	requests  *semaphore.Weighted // in flight
	primaries map[string]bool     // only of transactions with primaries in these tables; nil: all
	locks     atomic.Int64        // resolved

	mu   sync.Mutex
	seen map[layout.RowID]bool // rows of tables that were taken; at most rememberedRows before a batch
}

// resolveStreams resolves the locks of all entries up to the safepoint, and returns which rows of
// the journal hold them. A row that cannot be decoded stops the cycle: what it names may be needed.
func (s *collecting) resolveStreams(ctx context.Context) (resolved []streamRows, err error) {
	r := &resolving{Collector: s.Collector, safepoint: s.state.Safepoint, requests: semaphore.NewWeighted(collectParallel), seen: map[layout.RowID]bool{}}
	before := s.state.Locks
	keep := func(ctx context.Context) error {
		s.state.Locks = before + r.locks.Load()
		return s.keep(ctx)
	}
	err = WhileLeased(ctx, s.cfg.Lease, keep, func(ctx context.Context) (err error) {
		resolved, err = r.streams(ctx)
		return err
	})
	return resolved, err
}

func (r *resolving) streams(ctx context.Context) ([]streamRows, error) {
	streams, err := journal.AllStreams(ctx, r.e.Store)
	if err != nil {
		return nil, err
	}
	if err := r.list(ctx, streams); err != nil {
		return nil, err
	}
	// Other streams can get no rows with earlier entries.
	streams = slices.DeleteFunc(streams, func(st journal.Stream) bool { return !st.Rows })
	resolved := make([]streamRows, len(streams))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(streamsAtOnce)
	for i, st := range streams {
		g.Go(func() error {
			rows, err := r.stream(ctx, st.ID)
			resolved[i] = streamRows{[]byte(st.ID), rows}
			return err
		})
	}
	err = g.Wait()
	return slices.DeleteFunc(resolved, func(st streamRows) bool { return len(st.Rows) == 0 }), err
}

// listHeaderless is what a collector does where a hold keeps it from beginning a cycle: the
// notifications in such streams do not wait for the hold's end.
func (g *Collector) listHeaderless(ctx context.Context) error {
	streams, err := journal.AllStreams(ctx, g.e.Store)
	if err != nil {
		return err
	}
	return g.list(ctx, streams)
}

// list has streams adopted whose owner appended to them while their header was deleted: adopters
// look for headers, and a low position is enough of one.
func (g *Collector) list(ctx context.Context, streams []journal.Stream) error {
	low := map[journal.StreamID]uint64{}
	for _, st := range streams {
		if st.Rows && !st.Header && st.Low == 1 {
			low[st.ID] = 1
		}
	}
	return journal.WriteLow(ctx, g.e.Store, low)
}

func (r *resolving) stream(ctx context.Context, id journal.StreamID) (resolved seqs, err error) {
	next, stop := iter.Pull2(journal.ReadStream(ctx, r.e.Store, id, 1, journalRows))
	defer stop()
	for more := true; more; {
		var rows []journal.StreamRow
		err := r.request(ctx, func() (err error) {
			rows, err, more = next()
			return err
		})
		if err != nil {
			return nil, err
		}
		if n := slices.IndexFunc(rows, r.above); n >= 0 {
			rows, more = rows[:n], false
		}
		if err := r.entries(ctx, rows); err != nil {
			return nil, err
		}
		for _, row := range rows {
			resolved = resolved.with(row.Seq)
		}
	}
	return resolved, nil
}

// above reports whether every entry of a row is above the safepoint.
func (r *resolving) above(row journal.StreamRow) bool {
	return !slices.ContainsFunc(row.Entries, func(e model.JournalEntry) bool { return e.StartTS <= r.safepoint })
}

// entries resolves every lock up to the safepoint in the rows of some entries.
func (r *resolving) entries(ctx context.Context, rows []journal.StreamRow) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for table, keys := range r.take(rows) {
		for chunk := range store.KeyChunks(keys) {
			g.Go(func() error { return r.rows(ctx, table, chunk) })
		}
	}
	return g.Wait()
}

// take is the rows that entries name and that were not taken yet.
func (r *resolving) take(rows []journal.StreamRow) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) > rememberedRows {
		clear(r.seen)
	}
	if r.primaries != nil {
		rows = r.ofPrimaries(rows)
	}
	keys := named(rows, r.safepoint, r.e.Meta.Catalog.Load(), func(id layout.RowID) bool { return r.seen[id] })
	for table, keys := range keys {
		for _, key := range keys {
			r.seen[layout.RowID{Table: table, Key: key}] = true
		}
	}
	return keys
}

// rows resolves the locks of some rows, which one request names. A lock that cannot be judged stops
// the cycle: what it depends on must not be erased.
func (r *resolving) rows(ctx context.Context, table string, keys []string) error {
	if err := retry.Sleep(ctx, r.delay(len(keys))); err != nil {
		return err
	}
	var locked []layout.Row
	err := r.request(ctx, func() error {
		return r.e.Store.ReadRows(ctx, table, store.Rows{Keys: keys}, store.Locks(r.safepoint), 0, func(row layout.Row) bool {
			locked = append(locked, row)
			return true
		})
	})
	if err != nil {
		return err
	}
	return eachLock(ctx, table, locked, &r.locks, func(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
		if r.primaries != nil && !r.primaries[l.Primary.Table] {
			return nil
		}
		return r.request(ctx, func() error { return r.e.Locks.ResolveDrained(ctx, cell, l) })
	})
}

// request waits until one more request may be in flight.
func (r *resolving) request(ctx context.Context, send func() error) error {
	if err := r.requests.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.requests.Release(1)
	return send()
}

// eachLock calls resolve for the locks of some rows, collectParallel at a time, and counts those
// for which it succeeds.
func eachLock(ctx context.Context, table string, rows []layout.Row, resolved *atomic.Int64, resolve func(context.Context, model.Cell, layout.LockRecord) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for _, row := range rows {
		for col, v := range layout.DecodeRow(table, row) {
			if v.Corrupt != nil {
				g.Go(func() error { return v.Corrupt })
			}
			for _, l := range v.Locks {
				g.Go(func() error {
					err := resolve(ctx, model.Cell{Table: table, Row: row.Key, Column: col}, l)
					if err == nil {
						resolved.Add(1)
					}
					return err
				})
			}
		}
	}
	return g.Wait()
}
