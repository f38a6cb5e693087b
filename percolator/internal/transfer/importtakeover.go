package transfer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// A source that programs write meanwhile may lack, when it is read again, what an earlier process
// has read beyond the position that it saved. Such a row would stay, and the table would not be
// what was read. So whoever goes on removes what was written beyond the position, and reads that
// again. The earlier process may still be there, so this one shuts it out first:
//
//	count    Takeovers in the fence goes up, and whoever knows another number writes no more
//	drain    until that is known, and what was sent before has arrived or never will
//	restore  entries of unique indexes that such a row has taken from one before the position
//	erase    the versions at T and C beyond the position, and index entries that name such rows
//	wait     for late copies of the erasing requests: what is written next has the same timestamps
//
// Rejected: to let the check pass if the table has more than the source. It would miss a loss, and
// leave entries of indexes that no row has any more.

// TakeOver makes this process the only one that writes for the import, and removes what was written
// to rows beyond after; "" is before all of them. It waits, and tells waiting for how long, if that
// is not nil; it does nothing for the process that began the import. It may be called again after
// an error. ErrConflict: another process has taken the import over since, or has ended it.
func (im *Import) TakeOver(ctx context.Context, after string, waiting func(time.Duration)) error {
	if im.alone {
		return nil
	}
	ctx = store.InBackground(ctx)
	wait := func(d time.Duration) error {
		if waiting != nil {
			waiting(d)
		}
		return retry.Sleep(ctx, d)
	}
	if !im.drained {
		if err := im.shutOut(ctx); err != nil {
			return err
		}
		if err := wait(catalog.DrainTime(im.e.Store.Timing)); err != nil {
			return err
		}
		im.drained = true
	}
	t := &takeover{im: im, taken: map[string]bool{}}
	if t.start = after; after != "" {
		t.start += "\x00"
		if err := t.restore(ctx); err != nil {
			return err
		}
	}
	if err := t.erase(ctx); err != nil {
		return err
	}
	if im.erased.Load() {
		if err := wait(catalog.ArrivalTime(im.e.Store.Timing)); err != nil {
			return err
		}
	}
	im.alone = true
	return nil
}

// takeover is one call of TakeOver.
type takeover struct {
	im    *Import
	start string // everything from this row on goes

	mu    sync.Mutex
	taken map[string]bool // entries of unique indexes that name rows from start on: table and key
}

// erase removes what the import has written from start on.
func (t *takeover) erase(ctx context.Context) error {
	im := t.im
	for _, name := range catalog.BigtableNames(im.info.Table) {
		erase := func(ctx context.Context, rows []layout.Row) error {
			_, err := im.erasePage(ctx, name, rows, func(ctx context.Context) error {
				im.erased.Store(true)
				return im.inForce(ctx)
			})
			return err
		}
		if name != im.table {
			if err := t.eachEntry(ctx, name, erase); err != nil {
				return err
			}
			continue
		}
		err := im.eachPart(ctx, name, func(ctx context.Context, part model.Range) error {
			if part.End != "" && part.End <= t.start {
				return nil
			}
			part.Start = max(part.Start, t.start)
			for page, err := range im.e.Store.NewPass(name, part, store.History(), abortPages).Pages(ctx) {
				if err == nil {
					err = erase(ctx, page.Rows)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachEntry calls f with the entries of an index that name rows from start on, in parallel.
func (t *takeover) eachEntry(ctx context.Context, index string, f func(context.Context, []layout.Row) error) error {
	im := t.im
	return im.eachPart(ctx, index, func(ctx context.Context, part model.Range) error {
		for page, err := range im.e.Store.NewPass(index, part, store.Exported(im.cell.Commit, false), verifiedPages).Pages(ctx) {
			if err == nil {
				err = f(ctx, t.entries(page.Rows))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// entries are those that the import has written for rows from start on.
func (t *takeover) entries(all []layout.Row) (of []layout.Row) {
	for _, entry := range all {
		if cells := t.im.written(entry).Cells; len(cells) > 0 && string(cells[0].Value) >= t.start {
			of = append(of, entry)
		}
	}
	return of
}

// restore writes the values before start again whose entries name other rows: the source held a
// unique value in one row, and later in another one.
func (t *takeover) restore(ctx context.Context) error {
	im := t.im
	for _, ix := range im.info.Indexes {
		if !ix.Unique {
			continue
		}
		name := catalog.IndexTable(im.table, ix)
		err := t.eachEntry(ctx, name, func(_ context.Context, entries []layout.Row) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			for _, entry := range entries {
				t.taken[name+"\x00"+entry.Key] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(t.taken) == 0 {
		return nil
	}
	return im.eachPart(ctx, im.table, func(ctx context.Context, part model.Range) error {
		if part.Start >= t.start {
			return nil
		}
		if part.End == "" || part.End > t.start {
			part.End = t.start
		}
		for page, err := range im.e.Store.NewPass(im.table, part, store.Exported(im.cell.Commit, false), verifiedPages).Pages(ctx) {
			if err != nil {
				return err
			}
			var again []model.ImportRow
			for _, row := range page.Rows {
				out := im.written(row)
				out.Cells = slices.DeleteFunc(out.Cells, func(c model.ImportCell) bool {
					return !slices.ContainsFunc(im.info.IndexesOf[c.Column], func(ix model.Index) bool {
						entry := catalog.IndexEntryCell(ix, im.table, string(c.Value), row.Key)
						return t.taken[entry.Table+"\x00"+entry.Row]
					})
				})
				if len(out.Cells) > 0 {
					again = append(again, out)
				}
			}
			if len(again) > 0 {
				if err := im.WriteRows(ctx, again); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// shutOut counts the takeover.
func (im *Import) shutOut(ctx context.Context) error {
	for range meta.MaxTries {
		m, err := im.e.Meta.Refresh(ctx)
		if err != nil {
			return err
		}
		at := m.Imports[im.table]
		im.cell.Takeovers = at.Takeovers // also one of this process, whose answer was lost
		if err := im.same(m); err != nil {
			return err
		}
		next := at
		next.Takeovers++
		replaced, err := im.e.Meta.ReplaceImport(ctx, im.table, &at, &next)
		if err != nil {
			return err
		}
		if m, err = im.e.Meta.Refresh(ctx); err != nil { // from now on this one is known
			return err
		}
		if replaced {
			im.cell = next
			return im.same(m)
		}
	}
	return fmt.Errorf("percolator: table %q: %w: its fence was changed by others %d times", im.table, model.ErrConflict, meta.MaxTries)
}
