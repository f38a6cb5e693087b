package model

import "fmt"

// MaxColumnRanges is how many ranges of columns a scan names, named columns and all, once those
// that overlap or touch are one.
const MaxColumnRanges = 100

// ScanOptions select cells of a table by row and by column. Ranges may overlap and come in any
// order; an empty one selects nothing.
type ScanOptions struct {
	Rows         []Range  // ranges of row keys; none: all rows
	Columns      []string // names of columns
	ColumnRanges []Range  // ranges of names of columns; neither these nor Columns: all columns
	Reverse      bool     // rows from the last key to the first, columns in order
	Limit        int      // of rows that have an entry; 0: none
}

// ScanIndexOptions select entries of an index.
type ScanIndexOptions struct {
	Values  Range
	Reverse bool // from the last entry to the first
	Limit   int  // of entries; 0: none
}

// CheckLimit refuses a limit below 0.
func CheckLimit(table string, limit int) error {
	if limit < 0 {
		return fmt.Errorf("percolator: scan of table %q: %w: the limit is %d", table, ErrInvalidArgument, limit)
	}
	return nil
}

// SelectedRows is the keys of the rows.
func SelectedRows(o ScanOptions) Ranges {
	if len(o.Rows) == 0 {
		return Ranges{All()}
	}
	return Union(o.Rows...)
}

// SelectedColumns is the names of the columns.
func SelectedColumns(o ScanOptions) Ranges {
	if len(o.Columns)+len(o.ColumnRanges) == 0 {
		return Ranges{All()}
	}
	all := make([]Range, 0, len(o.Columns)+len(o.ColumnRanges))
	for _, name := range o.Columns {
		all = append(all, Row(name))
	}
	return Union(append(all, o.ColumnRanges...)...)
}
