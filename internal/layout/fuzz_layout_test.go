package layout

import (
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// FuzzCellTime: every Bigtable timestamp is refused or is that of exactly one timestamp, and order
// is kept (I18).
func FuzzCellTime(f *testing.F) {
	for _, ts := range []int64{0, 1, -1, 999, 1000, 1001, 1500, 2000, -1000, int64(CellTime(tso.MaxTimestamp)), int64(CellTime(tso.MaxTimestamp)) + 1000, 1<<63 - 1, -1 << 63} {
		f.Add(ts, int64(5000))
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, errX := FromCell(a)
		y, errY := FromCell(b)
		if errX == nil && (x <= 0 || CellTime(x) != a || bigtable.Timestamp(CellTime(x)).TruncateToMilliseconds() != bigtable.Timestamp(CellTime(x))) {
			t.Errorf("%d was taken for %d, whose cell timestamp is %d", a, x, CellTime(x))
		}
		if errX == nil && errY == nil && (x < y) != (a < b) {
			t.Errorf("%d and %d changed their order: %d and %d", a, b, x, y)
		}
	})
}

// FuzzIndexEntry: the key of every entry gives back its value and its row, keys sort as values and
// rows do, and no bytes that somebody else has put in the table of an index are taken for an entry
// that this package would have written differently.
func FuzzIndexEntry(f *testing.F) {
	for _, v := range []string{"", "a", "\x00", "\x00\x01", "\x00\xff", "\x00\x01r", "a\x00", "\xff", "a\x00\xffb", "\x00\x00\x01"} {
		f.Add(v, "r", v+"\x00\x01r", "r")
		f.Add("a", v+"x", v, v)
	}
	f.Fuzz(func(t *testing.T, value, row, key, stored string) {
		for _, unique := range []bool{false, true} {
			ix := model.Index{Name: "ix", Column: "c", Unique: unique}
			if ix.CheckEntry(model.Cell{Table: "t", Row: row, Column: "c"}, []byte(value)) == nil && model.ValidateRow(model.Cell{Table: "t", Row: row, Column: "c"}) == nil {
				at := ix.EntryCell("t", value, row)
				cell, v, ok := ix.DecodeEntry("t", model.Entry{Cell: at, Value: []byte(row)})
				if !ok || v != value || cell != (model.Cell{Table: "t", Row: row, Column: "c"}) {
					t.Errorf("%q in row %q comes back as %q in %s, %v", value, row, v, cell, ok)
				}
			}
			if a, b := ix.EntryCell("t", value, "r").Row, ix.EntryCell("t", stored, "r").Row; (a < b) != (value < stored) {
				t.Errorf("%q and %q sort as %q and %q", value, stored, a, b)
			}
			foreign := model.Entry{Cell: model.Cell{Table: ix.TableName("t"), Row: key, Column: model.IndexColumn}, Value: []byte(stored)}
			if cell, v, ok := ix.DecodeEntry("t", foreign); ok && ix.EntryCell("t", v, cell.Row) != foreign.Cell {
				t.Errorf("the key %q with row %q was taken for %q in %s", key, stored, v, cell)
			}
		}
	})
}
