package admin

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// Lists of unfinished work go by the journal: they read the rows that its unsettled entries name,
// and no others, so they cost what is unfinished and not what the tables hold. What the journal
// does not lead to only a scan finds: a lock of a transaction that was never going to commit (J8),
// a notification of a column no longer observed, and what something else has written.

// PendingOptions says how ListPending and ListLocks look for rows with unfinished work. The zero
// value goes by the journal and lists all.
type PendingOptions struct {
	// Scan passes over all rows of the range, and so finds what the journal does not lead to. It
	// costs as much as the range is large. false: by the journal, if there is one.
	Scan bool
	// Enough ends the list of each table soon after so many of its rows. 0: the list has all.
	Enough int
}

// ListPending streams, by table and row, the rows of table in r that carry notify or lock cells, as
// far as unsettled entries of the journal name them. table "" stands for all tables and their
// indexes. A range of one row is read whatever the journal says. Without a journal, or while it is
// being built, it is [Admin.ScanPending]. Errors: ErrSchemaMismatch for a table that is not in the
// schema, ErrCorrupt for a row of the journal that cannot be decoded, the store's, and the
// context's.
func (a *Admin) ListPending(ctx context.Context, table string, r percolator.Range, opts PendingOptions) iter.Seq2[model.Pending, error] {
	return func(yield func(model.Pending, error) bool) {
		store.Each(a.unfinished(store.InBackground(ctx), table, r, opts, store.Pending()), func(page journal.NamedPage) ([]model.Pending, error) {
			return ordered.Map(page.Rows, func(row layout.Row) model.Pending { return layout.DecodePending(page.Table, row) }), nil
		})(yield)
	}
}

// unfinishedPages bounds what a list reads at once.
var unfinishedPages = store.PageSize{Rows: 512, Cells: 4096}

// unfinished reads what q lets through of the rows of table in r, or of all tables.
func (a *Admin) unfinished(ctx context.Context, table string, r percolator.Range, opts PendingOptions, q store.Query) iter.Seq2[journal.NamedPage, error] {
	knows := func(table string) (bool, error) { return a.e.Meta.HasTable(ctx, table) }
	if table != "" {
		if err := a.e.Meta.RequireTable(ctx, table); err != nil {
			return func(yield func(journal.NamedPage, error) bool) { yield(journal.NamedPage{}, err) }
		}
	}
	oneRow := r.Start != "" && r == percolator.Row(r.Start)
	if a.e.Meta.ByJournal() && !opts.Scan && !oneRow {
		sel := journal.Selection{Table: table, Range: r, Knows: knows, Enough: opts.Enough, Parked: q.Shape == store.ShapePending}
		return journal.NamedRows(ctx, a.e.Store, sel, q)
	}
	tables := []string{table}
	if table == "" {
		tables = catalog.AllTables(a.e.Meta.Catalog.Load().Schema)
	}
	return func(yield func(journal.NamedPage, error) bool) {
		for _, table := range tables {
			found := 0
			for page, err := range a.e.Store.NewPass(table, r, q, unfinishedPages).Pages(ctx) {
				if !yield(journal.NamedPage{Table: table, Rows: page.Rows}, err) || err != nil {
					return
				}
				if found += len(page.Rows); opts.Enough > 0 && found >= opts.Enough {
					break
				}
			}
		}
	}
}
