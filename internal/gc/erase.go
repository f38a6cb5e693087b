package gc

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// eraser removes garbage at or below a GC watermark. It is for one goroutine.
type eraser struct {
	*Collector
	watermark tso.Timestamp
}

func (g *Collector) eraser(watermark tso.Timestamp) *eraser { return &eraser{g, watermark} }

// erased counts what was done to a page.
type erased struct {
	versions, tombstones, postponed, corrupt atomic.Int64
	left                                     func(row string) // hears of rows with garbage that stays; nil: nobody does
}

func (e *erased) leave(row string, n int64) {
	e.postponed.Add(n)
	if n > 0 && e.left != nil {
		e.left(row)
	}
}

// tally is what erasing did, as it is stored (Collection).
type tally struct {
	Rows, Versions, Tombstones, Postponed, Corrupt, Dispatched int64 `json:",omitempty"`
}

func (e *erased) tally(rows int) tally {
	return tally{Rows: int64(rows), Versions: e.versions.Load(), Tombstones: e.tombstones.Load(), Postponed: e.postponed.Load(), Corrupt: e.corrupt.Load()}
}

func (t *tally) add(o tally) {
	t.Rows += o.Rows
	t.Versions += o.Versions
	t.Tombstones += o.Tombstones
	t.Postponed += o.Postponed
	t.Corrupt += o.Corrupt
	t.Dispatched += o.Dispatched
}

// less is what was done since.
func (t tally) less(before tally) tally {
	return tally{t.Rows - before.Rows, t.Versions - before.Versions, t.Tombstones - before.Tombstones, t.Postponed - before.Postponed, t.Corrupt - before.Corrupt, t.Dispatched - before.Dispatched}
}

func (c *Collection) tally() tally {
	return tally{c.Rows, c.Versions, c.Tombstones, c.Postponed, c.Corrupt, c.Dispatched}
}

// setTally says what was erased in all.
func (c *Collection) setTally(t tally) {
	c.Rows, c.Versions, c.Tombstones, c.Postponed, c.Corrupt, c.Dispatched = t.Rows, t.Versions, t.Tombstones, t.Postponed, t.Corrupt, t.Dispatched
}

// removed counts cells that are gone.
func (x *eraser) removed(did *erased, versions int) {
	did.versions.Add(int64(versions))
	x.e.Store.Count.Collected.Add(int64(versions))
}

// page removes the garbage of some rows of a table.
func (x *eraser) page(ctx context.Context, table string, page []layout.Row, observed map[string]bool, did *erased) error {
	var muts []store.RowMutation
	versions, tombstones := 0, 0
	g, vctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for _, row := range page {
		garbage := collectible(layout.DecodeRow(table, row), x.watermark)
		tombstones += garbage.eraseUnobserved(observed)
		garbage.limit()
		if mut := garbage.mutation(); mut != nil {
			muts = append(muts, store.RowMutation{Table: table, Row: row.Key, Mut: mut})
			versions += versionsOf(garbage.erasures)
		}
		for _, v := range garbage.tombstones {
			g.Go(func() error { return x.tombstone(vctx, table, row.Key, v, did) })
		}
		did.leave(row.Key, int64(garbage.postponed))
		did.corrupt.Add(int64(len(garbage.corrupt)))
	}
	deadline := time.Now().Add(x.e.Store.Timing.RequestLifetime)
	for i := range muts {
		muts[i].Deadline = deadline
	}
	err := x.e.Sweeping.Do(ctx, muts)
	if err == nil {
		x.removed(did, versions)
		did.tombstones.Add(int64(tombstones))
	}
	return errors.Join(err, g.Wait())
}

func (g rowGarbage) mutation() *store.Mutation {
	if len(g.erasures) == 0 {
		return nil
	}
	mut := store.NewMutation(2)
	for _, e := range g.erasures {
		e.apply(mut)
	}
	return mut
}

// eraseUnobserved moves the ends of cells whose column is not observed to the plain erasures, and
// counts them.
func (g *rowGarbage) eraseUnobserved(observed map[string]bool) (n int) {
	g.tombstones = slices.DeleteFunc(g.tombstones, func(v tombstone) bool {
		if observed[v.column] {
			return false
		}
		g.erasures = append(g.erasures, v.erasures...)
		n++
		return true
	})
	return n
}

// tombstone removes the last record of a cell, unless an observer has yet to see the deletion.
func (x *eraser) tombstone(ctx context.Context, table, row string, v tombstone, did *erased) error {
	mut := store.NewMutation(2)
	for _, e := range v.erasures {
		e.apply(mut)
	}
	notified, err := x.e.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return x.e.Store.CheckAndMutate(ctx, table, row, store.AnyNotify(v.column), nil, mut)
	})
	switch {
	case err != nil:
		return err
	case notified:
		did.leave(row, 1)
	default:
		did.tombstones.Add(1)
		x.removed(did, versionsOf(v.erasures))
	}
	return nil
}
