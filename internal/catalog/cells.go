package catalog

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
)

// ValidateRow checks Bigtable's limits on row keys.
func ValidateRow(c model.Cell) error {
	switch {
	case c.Row == "":
		return CellError(model.ErrInvalidArgument, c, "the row key is empty")
	case len(c.Row) > model.MaxRowKeyBytes:
		return CellError(model.ErrTooLarge, model.Cell{Table: c.Table, Row: text.Beginning(c.Row, 32) + "…", Column: c.Column}, "the row key has %d bytes, the limit is %d", len(c.Row), model.MaxRowKeyBytes)
	}
	return nil
}

// ValidateColumn checks a user's column name. Reserved columns begin with 0x00.
func ValidateColumn(c model.Cell) error {
	switch {
	case c.Column == "":
		return CellError(model.ErrInvalidArgument, c, "the column is empty")
	case len(c.Column) > model.MaxColumnBytes:
		return CellError(model.ErrTooLarge, model.Cell{Table: c.Table, Row: c.Row, Column: text.Beginning(c.Column, 32) + "…"}, "the column has %d bytes, the limit is %d", len(c.Column), model.MaxColumnBytes)
	case strings.Contains(c.Column, "\x00"):
		return CellError(model.ErrInvalidArgument, c, "a column may not contain the byte 0x00")
	}
	return nil
}

// CompareCells orders cells by table, row and column.
func CompareCells(a, b model.Cell) int {
	return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Row, b.Row), strings.Compare(a.Column, b.Column))
}

// CellError wraps a sentinel with the cell, or the column if there is no row, and what is wrong
// with it. It never carries a value.
func CellError(sentinel error, c model.Cell, format string, args ...any) error {
	place := c.String()
	if c.Row == "" {
		place = c.Table + "/" + strconv.Quote(c.Column)
	}
	return fmt.Errorf("percolator: %s: %w: %s", place, sentinel, fmt.Sprintf(format, args...))
}
