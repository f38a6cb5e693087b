package catalog

import (
	"strings"

	"github.com/gopercolator/percolator/percolator/model"
)

// IndexColumn is the one column of an index: a table whose rows are the values of the indexed
// column, in order. Its entries are ordinary writes of the transaction that writes the column, so
// index and data can never disagree (the use that section 2.2 of the paper gives for transactions).
//
//	row of an entry:   escaped value, 0x00 0x01; then the indexed row, unless the index is unique
//	value of an entry: the row of the indexed cell
//
// A unique index leaves the row out of the key: two rows with one value write the same cell, and
// one of them conflicts.
//
// A transaction that changes an indexed cell writes the entry of its former value even if there is
// none: there it conflicts with a backfill that is about to write that entry.
const IndexColumn = "row"

// EscapeValue keeps order: 0x00 becomes 0x00 0xff, which is above the terminator 0x00 0x01.
func EscapeValue(v string) string { return strings.ReplaceAll(v, "\x00", "\x00\xff") }

// IndexEntryCell is where the entry of a value lives.
func IndexEntryCell(ix model.Index, table, value, row string) model.Cell {
	key := EscapeValue(value) + "\x00\x01"
	if !ix.Unique {
		key += row
	}
	return model.Cell{Table: IndexTable(table, ix), Row: key, Column: IndexColumn}
}

// CheckIndexEntry refuses a value for which no row key can hold an entry.
func CheckIndexEntry(ix model.Index, c model.Cell, value []byte) error {
	if len(IndexEntryCell(ix, c.Table, string(value), c.Row).Row) > model.MaxRowKeyBytes {
		return CellError(model.ErrTooLarge, c, "the value makes an entry of index %q longer than %d bytes", ix.Name, model.MaxRowKeyBytes)
	}
	return nil
}

// ValueOf recovers the indexed value from the key of an entry; false: key is not one.
func ValueOf(key string) (string, bool) {
	for i := 0; i+1 < len(key); i++ {
		if key[i] == 0 {
			if key[i+1] == 1 {
				return strings.ReplaceAll(key[:i], "\x00\xff", "\x00"), true
			}
			i++
		}
	}
	return "", false
}

// DecodeIndexEntry reverses IndexEntryCell: it returns the cell that an entry stands for, and its
// value. ok is false if e is not an entry of ix.
func DecodeIndexEntry(ix model.Index, table string, e model.Entry) (cell model.Cell, value string, ok bool) {
	value, ok = ValueOf(e.Cell.Row)
	cell = model.Cell{Table: table, Row: string(e.Value), Column: ix.Column}
	return cell, value, ok && ValidateRow(cell) == nil && IndexEntryCell(ix, table, value, cell.Row) == e.Cell
}
