package settle

import (
	"context"
	"iter"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// Parked streams the rows of tables that the journal lists as parked, ordered by table and row, as
// they are now: whether anything is parked in them they say themselves. It keeps their names in
// memory.
func (l *Looker) Parked(ctx context.Context, tables ...string) iter.Seq2[model.Pending, error] {
	return func(yield func(model.Pending, error) bool) {
		keys, err := l.listParked(ctx)
		if err != nil {
			yield(model.Pending{}, err)
			return
		}
		for _, table := range tables {
			for chunk := range store.KeyChunks(slices.Compact(slices.Sorted(slices.Values(keys[table])))) {
				var rows []model.Pending
				err := l.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, store.Pending(), 0, func(row layout.Row) bool {
					rows = append(rows, layout.DecodePending(table, row))
					return true
				})
				if err != nil {
					yield(model.Pending{}, err)
					return
				}
				for _, row := range rows {
					if !yield(row, nil) {
						return
					}
				}
			}
		}
	}
}

// listParked is the rows that the journal lists as parked, by table.
func (l *Looker) listParked(ctx context.Context) (map[string][]string, error) {
	keys := map[string][]string{}
	for list, err := range journal.ListParked(ctx, l.Store) {
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			keys[s.Cell.Table] = append(keys[s.Cell.Table], s.Cell.Row)
		}
	}
	return keys, nil
}

// CountParked is how many cells the journal lists as parked: those that a retry has not ended yet,
// or are not forgotten yet, are among them.
func (l *Looker) CountParked(ctx context.Context) (n int, err error) {
	seen := map[model.Cell]bool{}
	for list, err := range journal.ListParked(ctx, l.Store) {
		if err != nil {
			return 0, err
		}
		for _, s := range list {
			seen[s.Cell] = true
		}
	}
	return len(seen), nil
}
