package gc

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ResolveLocksOf resolves every lock of transactions that began at or before upTo, and whose
// primary is in one of some tables, to which no client writes any more (I26). It goes by the
// journal, up to the first row of each stream that is above upTo, as a collection does (J6), and
// without one over all tables. It may be repeated. rowsPerSecond bounds how fast rows are read.
func ResolveLocksOf(ctx context.Context, e *engine.Engine, tables []string, upTo tso.Timestamp, rowsPerSecond int) error {
	g := &Collector{e: e, pace: rate.NewLimiter(rate.Limit(rowsPerSecond), collectRows)}
	primaries := catalog.SetOf(tables)
	var looked atomic.Int64
	if e.Meta.ByJournal() {
		streams, err := journal.AllStreams(ctx, e.Store)
		if err != nil {
			return err
		}
		r := newResolving(g, upTo)
		r.primaries = primaries
		_, err = r.streams(ctx, streams, &looked)
		return err
	}
	for table := range e.Meta.Catalog.Load().Tables {
		if primaries[table] {
			continue // its locks go with it
		}
		for page, err := range e.Store.NewPass(table, model.All(), store.Locks(upTo), collectPage).Pages(ctx) {
			if err == nil {
				err = g.pace.WaitN(ctx, min(len(page.Rows), g.pace.Burst()))
			}
			if err == nil {
				held, corrupt := locksOf(table, page.Rows)
				err = eachLock(ctx, held, &looked, func(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
					if !primaries[l.Primary.Table] {
						return nil
					}
					return e.Locks.ResolveDrained(ctx, cell, l)
				})
				err = errors.Join(corrupt, err)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ofPrimaries is the rows of a stream with those entries only whose primary is in r.primaries, or
// that have none: they may lead to any lock (J2).
func (r *resolving) ofPrimaries(rows []journal.StreamRow) (out []journal.StreamRow) {
	for _, row := range rows {
		kept := journal.StreamRow{Seq: row.Seq}
		for _, e := range row.Entries {
			if r.primaries[e.Primary.Table] || e.Primary == (model.Cell{}) {
				kept.Entries = append(kept.Entries, e)
			}
		}
		out = append(out, kept)
	}
	return out
}
