package transfer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// AbortImport removes what an unfinished import has written into a table, and lifts its fence. It
// may be broken off and called again. First it waits until every process that still imports must
// know; waiting, if not nil, is told for how long. progress, if not nil, is called with the rows
// that were removed so far. aborted is false if no import is unfinished.
//
// What it erases are the very versions that the import has written, whose timestamps no one else
// has, so a request of it that arrives late removes nothing else.
func AbortImport(ctx context.Context, e *engine.Engine, table string, waiting func(time.Duration), progress func(rows int64)) (aborted bool, err error) {
	if err := retry.CheckContext(ctx); err != nil {
		return false, err
	}
	for range meta.MaxTries {
		m, err := e.Meta.Refresh(ctx)
		if err != nil {
			return false, err
		}
		info, known := e.Meta.Catalog.Load().UserTable(table)
		at := m.Imports[table]
		im := &Import{e: e, table: table, info: info, cell: at}
		switch {
		case m.Fence != nil:
			return false, m.Fence.Refusal()
		case at.Phase == "" && !known && !aborted:
			return false, e.Meta.Catalog.Load().UnknownTable(table)
		case at.Phase == "":
			return aborted, nil
		case at.Phase == meta.ImportDrain, !known: // nothing was written, or it goes with the table
			_, err = e.Meta.ReplaceImport(ctx, table, &at, at.Withdrawn())
		case at.Phase == meta.ImportLoad:
			next := at
			next.Phase = meta.ImportAbort
			_, err = e.Meta.ReplaceImport(ctx, table, &at, &next)
		default:
			drain := catalog.DrainTime(e.Store.Timing)
			if waiting != nil {
				waiting(drain)
			}
			if err := retry.Sleep(ctx, drain); err != nil {
				return false, err
			}
			if err := im.erase(ctx, progress); err != nil {
				return false, err
			}
			now, err := e.Clock.Next(ctx) // after everything was acknowledged (I1)
			if err != nil {
				return false, err
			}
			if _, err := e.Meta.ReplaceImport(ctx, table, &at, at.Aborted(now)); err != nil {
				return false, err
			}
		}
		if err != nil {
			return false, err
		}
		aborted = true
	}
	return false, fmt.Errorf("percolator: table %q: %w: its fence was changed by others %d times", table, model.ErrConflict, meta.MaxTries)
}

// abortPages bounds what is read of the rows that go, without values, and what one request erases.
var abortPages = store.PageSize{Rows: 512, Cells: 20_000}

// erase removes what the import has written from the table and its indexes.
func (im *Import) erase(ctx context.Context, progress func(int64)) error {
	ctx = store.InBackground(ctx)
	turn, gone := make(chan struct{}, 1), int64(0)
	for _, name := range catalog.BigtableNames(im.info.Table) {
		err := im.eachPart(ctx, name, func(ctx context.Context, part model.Range) error {
			for page, err := range im.e.Store.NewPass(name, part, store.History(), abortPages).Pages(ctx) {
				if err != nil {
					return err
				}
				n, err := im.erasePage(ctx, name, page.Rows, im.inAbort)
				if err != nil {
					return err
				}
				turn <- struct{}{}
				if gone += n; progress != nil {
					progress(gone)
				}
				<-turn
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inAbort refuses to erase once another process has ended the abort.
func (im *Import) inAbort(ctx context.Context) error {
	m, err := im.e.Meta.Known(ctx)
	if err != nil {
		return err
	}
	if at := m.Imports[im.table]; at.Phase != meta.ImportAbort || at.Commit != im.cell.Commit || at.Takeovers != im.cell.Takeovers {
		return fmt.Errorf("percolator: table %q: %w: another process has aborted the import of %s", im.table, model.ErrConflict, im.cell.ID)
	}
	return nil
}

// erasePage removes what the import has written to rows, while allowed lets it.
func (im *Import) erasePage(ctx context.Context, table string, page []layout.Row, allowed func(context.Context) error) (int64, error) {
	// A repair may have brought back what was aborted before.
	imports := append(slices.Clone(im.cell.Erased), meta.ErasedImport{Start: im.cell.Start, Commit: im.cell.Commit})
	var rows []string
	var muts []*store.Mutation
	erased := int64(0)
	for _, row := range page {
		mut := store.NewMutation(2)
		for _, it := range row.Items {
			if ts, ok := wrote(imports, it); ok {
				mut.Erase(it.Family, it.Column, ts)
			}
		}
		if !mut.Empty() {
			erased++
		}
		for part := range mut.Parts(writtenChanges) {
			rows, muts = append(rows, row.Key), append(muts, part)
		}
	}
	if len(rows) == 0 {
		return 0, nil
	}
	pause := retry.NewTransient()
	for {
		lifetime, cancel := context.WithTimeout(ctx, im.e.Store.Timing.RequestLifetime) // before the check
		if err := allowed(lifetime); err != nil {
			cancel()
			return 0, err
		}
		errs, err := im.e.Store.MutateRows(lifetime, table, rows, muts)
		cancel()
		if err = cmp.Or(err, cmp.Or(errs...)); err == nil {
			return erased, nil
		}
		if err := pause.After(ctx, err); err != nil {
			return 0, err
		}
	}
}

// wrote reports whether a cell is from one of the imports.
func wrote(imports []meta.ErasedImport, it layout.Item) (ts tso.Timestamp, ok bool) {
	for _, e := range imports {
		switch it.Family {
		case layout.DataFamily:
			ts = e.Start
		case layout.WriteFamily, layout.NotifyFamily:
			ts = e.Commit
		}
		if ts != 0 && it.Timestamp == layout.CellTime(ts) {
			return ts, true
		}
	}
	return 0, false
}
