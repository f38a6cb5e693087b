package admin

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// MaxRowKeys is how many keys RowKeys lists.
const MaxRowKeys = 1000

// RowKeys lists the first keys in r of rows of a table that hold anything, be it a lock or what
// awaits collection, in order and at most limit (1 to MaxRowKeys) of them. more tells whether there
// are others. It reads one cell of each row, resolves no lock, and returns no values. Errors:
// ErrInvalidArgument for the limit, ErrSchemaMismatch for a table that is not in the schema, the
// store's, and the context's.
func (a *Admin) RowKeys(ctx context.Context, table string, r percolator.Range, limit int) (keys []string, more bool, err error) {
	if limit < 1 || limit > MaxRowKeys {
		return nil, false, fmt.Errorf("percolator: %w: RowKeys: a limit of %d, not 1 to %d", model.ErrInvalidArgument, limit, MaxRowKeys)
	}
	if err := a.e.Meta.RequireTable(ctx, table); err != nil {
		return nil, false, err
	}
	ctx = store.InBackground(ctx)
	for {
		page, err := a.e.Store.ReadPage(ctx, table, r, store.Anything(), store.PageSize{Rows: limit + 1 - len(keys)})
		if err != nil {
			return nil, false, err
		}
		for _, row := range page.Rows {
			keys = append(keys, row.Key)
		}
		if len(keys) > limit {
			return keys[:limit], true, nil
		}
		if r = page.Rest; !page.More {
			return keys, false, nil
		}
	}
}
