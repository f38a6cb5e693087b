package reads

import (
	"fmt"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// CheckLimit refuses a limit below 0.
func CheckLimit(table string, limit int) error {
	if limit < 0 {
		return fmt.Errorf("percolator: scan of table %q: %w: the limit is %d", table, model.ErrInvalidArgument, limit)
	}
	return nil
}

// SelectedRows is the keys of the rows.
func SelectedRows(o model.ScanOptions) catalog.Ranges {
	if len(o.Rows) == 0 {
		return catalog.Ranges{model.All()}
	}
	return catalog.Union(o.Rows...)
}

// SelectedColumns is the names of the columns.
func SelectedColumns(o model.ScanOptions) catalog.Ranges {
	if len(o.Columns)+len(o.ColumnRanges) == 0 {
		return catalog.Ranges{model.All()}
	}
	all := make([]model.Range, 0, len(o.Columns)+len(o.ColumnRanges))
	for _, name := range o.Columns {
		all = append(all, model.Row(name))
	}
	return catalog.Union(append(all, o.ColumnRanges...)...)
}
