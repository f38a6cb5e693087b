package gc

import (
	"context"
	"errors"
	"iter"
	"maps"
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

	mu   sync.Mutex
	seen map[layout.RowID]bool // rows of tables that were taken; at most rememberedRows before a batch
}

// offer has all collectors resolve the locks of this cycle: a share for each shard that has rows.
// Streams without rows can get none with entries up to the safepoint any more.
func (s *collecting) offer(ctx context.Context) error {
	asked, err := s.e.Clock.Next(ctx) // after the drain (J12)
	if err != nil {
		return err
	}
	shares := map[string][]byte{}
	err = WhileLeased(ctx, s.cfg.Lease, s.keep, func(ctx context.Context) error {
		streams, err := journal.AllStreams(ctx, s.e.Store)
		for _, st := range streams {
			if st.Rows {
				sh := share{Watermark: s.state.Safepoint, Asked: asked, State: shareResolve}
				shares[shareColumn(st.ID[0], 0)] = store.Comparable(sh.encode())
			}
		}
		return errors.Join(err, s.list(ctx, streams))
	})
	if err != nil {
		return err
	}
	return s.enter(ctx, model.CollectionResolve, shares)
}

// resolveShares resolves the locks of the cycle, and returns the shares that are to be erased.
func (s *collecting) resolveShares(ctx context.Context) (erase map[string][]byte, err error) {
	for {
		if !s.state.Offered { // or by a collector of a former version
			if err := s.offer(ctx); err != nil {
				return nil, err
			}
		}
		if err := s.workShares(ctx); err != nil {
			return nil, err
		}
		all, err := s.readShares(ctx)
		if err != nil {
			return nil, err
		}
		erase = map[string][]byte{}
		for _, sh := range all {
			// Every shard must be done for this safepoint.
			s.state.Offered = s.state.Offered && sh.State == shareResolved && sh.Watermark == s.state.Safepoint
			maps.Copy(erase, sh.toErase())
		}
		if s.state.Offered {
			return erase, nil
		}
	}
}

// resolveSome takes shares and resolves the locks of their shards. errShareLost: other collectors
// have them.
func (g *Collector) resolveSome(ctx context.Context, list []*heldShare, name string, keep func(context.Context) error) error {
	// Tables that were added before the drain must be known, or their locks would be passed over.
	if _, err := g.e.Meta.Refresh(ctx); err != nil {
		return err
	}
	return g.holdShares(ctx, list, name, keep, func(held []*heldShare, keep func(context.Context) error) error {
		r := newResolving(g, held[0].Watermark)
		done := make([]share, len(held)) // what they become: keep saves them meanwhile
		err := WhileLeased(ctx, g.cfg.Lease, keep, func(ctx context.Context) error {
			all, ctx := errgroup.WithContext(ctx)
			for i, sh := range held {
				all.Go(func() (err error) {
					done[i], err = r.shard(ctx, sh.shard())
					return err
				})
			}
			return all.Wait()
		})
		for i, sh := range held {
			if err == nil {
				sh.State, sh.Found, sh.Locks = shareResolved, done[i].Found, done[i].Locks
			}
		}
		return err
	})
}

// shard resolves the locks of one shard.
func (r *resolving) shard(ctx context.Context, shard byte) (done share, err error) {
	var streams []journal.Stream
	err = r.request(ctx, func() (err error) {
		streams, err = journal.StreamsOf(ctx, r.e.Store, shard)
		return err
	})
	if err != nil {
		return done, err
	}
	var locks atomic.Int64
	found, err := r.streams(ctx, streams, &locks)
	return share{Found: fit(found), Locks: locks.Load()}, err
}

func newResolving(g *Collector, safepoint tso.Timestamp) *resolving {
	return &resolving{Collector: g, safepoint: safepoint, requests: semaphore.NewWeighted(collectParallel), seen: map[layout.RowID]bool{}}
}

// streams resolves the locks of all open entries up to the safepoint, and returns which rows of the
// journal hold such entries, open or not. A row that cannot be decoded stops the cycle: what it
// names may be needed.
func (r *resolving) streams(ctx context.Context, streams []journal.Stream, locks *atomic.Int64) ([]streamRows, error) {
	found := make([]streamRows, len(streams))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(streamsAtOnce)
	for i, st := range streams {
		if !st.Rows {
			continue
		}
		g.Go(func() error {
			rows, err := r.stream(ctx, st, locks)
			found[i] = streamRows{[]byte(st.ID), rows}
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(found, func(st streamRows) bool { return len(st.Rows) == 0 }), err
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
	low := map[journal.StreamID]journal.Low{}
	for _, st := range streams {
		if st.Rows && !st.Header && st.Low == 1 {
			low[st.ID] = journal.Low{Seq: 1}
		}
	}
	return journal.WriteLow(ctx, g.e.Store, low)
}

func (r *resolving) stream(ctx context.Context, st journal.Stream, locks *atomic.Int64) (found seqs, err error) {
	next, stop := iter.Pull2(journal.ReadStream(ctx, r.e.Store, st.ID, 1, journalRows))
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
		for _, row := range rows {
			found = found.with(row.Seq)
		}
		open := slices.DeleteFunc(rows, func(row journal.StreamRow) bool { return !st.IsOpen(row.Seq) })
		if err := r.entries(ctx, open, locks); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// above reports whether every entry of a row is above the safepoint.
func (r *resolving) above(row journal.StreamRow) bool {
	return !slices.ContainsFunc(row.Entries, func(e model.JournalEntry) bool { return e.StartTS <= r.safepoint })
}

// entries resolves every lock up to the safepoint in the rows of some entries.
func (r *resolving) entries(ctx context.Context, rows []journal.StreamRow, locks *atomic.Int64) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for table, keys := range r.take(rows) {
		for chunk := range store.KeyChunks(keys) {
			g.Go(func() error { return r.rows(ctx, table, chunk, locks) })
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
	keys := named(rows, r.safepoint, r.e.Meta.Catalog.Load(), func(e model.JournalEntry, place int) bool {
		return r.seen[layout.RowID{Table: e.Rows[place].Table, Key: e.Rows[place].Key}]
	})
	for table, keys := range keys {
		for _, key := range keys {
			r.seen[layout.RowID{Table: table, Key: key}] = true
		}
	}
	return keys
}

// rows resolves the locks of some rows, which one request names. A lock that cannot be judged stops
// the cycle: what it depends on must not be erased.
func (r *resolving) rows(ctx context.Context, table string, keys []string, locks *atomic.Int64) error {
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
	held, corrupt := locksOf(table, locked)
	err = eachLock(ctx, held, locks, func(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
		if r.primaries != nil && !r.primaries[l.Primary.Table] {
			return nil
		}
		return r.request(ctx, func() error { return r.e.Locks.ResolveDrained(ctx, cell, l) })
	})
	return errors.Join(corrupt, err)
}

// request waits until one more request may be in flight.
func (r *resolving) request(ctx context.Context, send func() error) error {
	if err := r.requests.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.requests.Release(1)
	return send()
}

// heldLock is a lock and its cell.
type heldLock struct {
	model.Cell
	layout.LockRecord
}

// locksOf is the locks of some rows. An error says that a cell cannot be decoded.
func locksOf(table string, rows []layout.Row) (held []heldLock, err error) {
	for _, row := range rows {
		for col, v := range layout.DecodeRow(table, row) {
			err = errors.Join(err, v.Corrupt)
			for _, l := range v.Locks {
				held = append(held, heldLock{model.Cell{Table: table, Row: row.Key, Column: col}, l})
			}
		}
	}
	return held, err
}

// eachLock calls resolve for locks, collectParallel at a time, and counts those for which it
// succeeds.
func eachLock(ctx context.Context, locks []heldLock, resolved *atomic.Int64, resolve func(context.Context, model.Cell, layout.LockRecord) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for _, l := range locks {
		g.Go(func() error {
			err := resolve(ctx, l.Cell, l.LockRecord)
			if err == nil {
				resolved.Add(1)
			}
			return err
		})
	}
	return g.Wait()
}
