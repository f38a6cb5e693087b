package gc

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// eraser removes garbage at or below a GC watermark. It is for one goroutine.
type eraser struct {
	*Collector
	watermark tso.Timestamp
	keep      func(context.Context) error // keeps the lease, as often as it is due
}

// erased counts what was done to a page.
type erased struct {
	versions, tombstones, expired, postponed, corrupt atomic.Int64
	// Gets rows whose garbage stays; may be nil.
	left func(row string)
}

func (e *erased) leave(row string, n int64) {
	e.postponed.Add(n)
	if n > 0 && e.left != nil {
		e.left(row)
	}
}

// tally is what erasing did, as it is stored (Collection).
type tally struct {
	Rows, Versions, Tombstones, Expired, Postponed, Corrupt, Dispatched, Unread, Contradicted int64 `json:",omitempty"`
}

func (e *erased) tally(rows int) tally {
	return tally{Rows: int64(rows), Versions: e.versions.Load(), Tombstones: e.tombstones.Load(), Expired: e.expired.Load(), Postponed: e.postponed.Load(), Corrupt: e.corrupt.Load()}
}

func (t *tally) add(o tally) {
	t.Rows += o.Rows
	t.Versions += o.Versions
	t.Tombstones += o.Tombstones
	t.Expired += o.Expired
	t.Postponed += o.Postponed
	t.Corrupt += o.Corrupt
	t.Dispatched += o.Dispatched
	t.Unread += o.Unread
	t.Contradicted += o.Contradicted
}

// less is what was done since.
func (t tally) less(before tally) tally {
	return tally{t.Rows - before.Rows, t.Versions - before.Versions, t.Tombstones - before.Tombstones, t.Expired - before.Expired, t.Postponed - before.Postponed, t.Corrupt - before.Corrupt, t.Dispatched - before.Dispatched, t.Unread - before.Unread, t.Contradicted - before.Contradicted}
}

func tallyOf(c *model.Collection) tally {
	return tally{c.Rows, c.Versions, c.Tombstones, c.Expired, c.Postponed, c.Corrupt, c.Dispatched, c.Unread, c.Contradicted}
}

// setTally says what was erased in all.
func setTally(c *model.Collection, t tally) {
	c.Rows, c.Versions, c.Tombstones, c.Expired, c.Postponed, c.Corrupt, c.Dispatched, c.Unread, c.Contradicted = t.Rows, t.Versions, t.Tombstones, t.Expired, t.Postponed, t.Corrupt, t.Dispatched, t.Unread, t.Contradicted
}

// eraseAll sends erasures, unless a repair is unfinished: what is garbage stays garbage, unless a
// repair removes what made it garbage (I20).
func (g *Collector) eraseAll(ctx context.Context, muts []store.RowMutation) error {
	if len(muts) == 0 {
		return nil
	}
	until, err := g.e.Meta.CheckRepairing(ctx)
	if err != nil {
		return err
	}
	for i := range muts {
		muts[i].Deadline = until
	}
	return g.e.Sweeping.Do(ctx, muts)
}

// removed counts cells that are gone.
func (x *eraser) removed(did *erased, versions int) {
	did.versions.Add(int64(versions))
	x.e.Store.Count.Collected.Add(int64(versions))
}

// page removes the garbage of some rows of a table.
func (x *eraser) page(ctx context.Context, info *catalog.TableInfo, page []layout.Row, did *erased) error {
	var muts []store.RowMutation
	var expired []model.Cell
	table := info.Name
	versions, tombstones := 0, 0
	g, vctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for _, row := range page {
		cells := layout.DecodeRow(table, row)
		garbage := collectible(cells, x.watermark)
		tombstones += garbage.eraseUnobserved(info.IsObserved)
		garbage.limit()
		if mut := garbage.mutation(); mut != nil {
			muts = append(muts, store.RowMutation{Table: table, Row: row.Key, Mut: mut})
			versions += versionsOf(garbage.erasures)
		}
		for _, v := range garbage.tombstones {
			switch notifies := v.expired && info.NotifiesExpired(v.column); {
			case !notifies:
				g.Go(func() error { return x.tombstone(vctx, table, row.Key, v, did) })
			case len(cells[v.column].Locks) > 0:
				did.leave(row.Key, 1)
			default:
				expired = append(expired, model.Cell{Table: table, Row: row.Key, Column: v.column})
			}
		}
		did.leave(row.Key, int64(garbage.postponed))
		did.corrupt.Add(int64(len(garbage.corrupt)))
	}
	err := x.eraseAll(ctx, muts)
	if err == nil {
		x.removed(did, versions)
		did.tombstones.Add(int64(tombstones))
	}
	if err = errors.Join(err, g.Wait()); err != nil || len(expired) == 0 {
		return err
	}
	return WhileLeased(ctx, x.cfg.Lease, x.keep, func(ctx context.Context) error {
		return x.deleteExpired(ctx, expired, did)
	})
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
	mut := rowGarbage{erasures: v.erasures}.mutation()
	notified, err := x.e.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
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
