package percolator

import (
	"errors"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// FuzzCellTime: every Bigtable timestamp is refused or is that of exactly one timestamp, and order is kept (I18).
func FuzzCellTime(f *testing.F) {
	for _, ts := range []int64{0, 1, -1, 999, 1000, 1001, 1500, 2000, -1000, int64(cellTime(tso.MaxTimestamp)), int64(cellTime(tso.MaxTimestamp)) + 1000, 1<<63 - 1, -1 << 63} {
		f.Add(ts, int64(5000))
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, errX := fromCell(bigtable.Timestamp(a))
		y, errY := fromCell(bigtable.Timestamp(b))
		if errX == nil && (x <= 0 || cellTime(x) != bigtable.Timestamp(a) || cellTime(x).TruncateToMilliseconds() != cellTime(x)) {
			t.Errorf("%d was taken for %d, whose cell timestamp is %d", a, x, cellTime(x))
		}
		if errX == nil && errY == nil && (x < y) != (a < b) {
			t.Errorf("%d and %d changed their order: %d and %d", a, b, x, y)
		}
	})
}

// FuzzIndexEntry: the key of every entry gives back its value and its row, keys sort as values and rows do, and no bytes that somebody else has
// put in the table of an index are taken for an entry that this package would have written differently.
func FuzzIndexEntry(f *testing.F) {
	for _, v := range []string{"", "a", "\x00", "\x00\x01", "\x00\xff", "\x00\x01r", "a\x00", "\xff", "a\x00\xffb", "\x00\x00\x01"} {
		f.Add(v, "r", v+"\x00\x01r", "r")
		f.Add("a", v+"x", v, v)
	}
	f.Fuzz(func(t *testing.T, value, row, key, stored string) {
		for _, unique := range []bool{false, true} {
			ix := Index{Name: "ix", Column: "c", Unique: unique}
			if ix.checkEntry(Cell{"t", row, "c"}, []byte(value)) == nil && validateRow(Cell{"t", row, "c"}) == nil {
				at := ix.entryCell("t", value, row)
				cell, v, ok := ix.decodeEntry("t", Entry{Cell: at, Value: []byte(row)})
				if !ok || v != value || cell != (Cell{"t", row, "c"}) {
					t.Errorf("%q in row %q comes back as %q in %s, %v", value, row, v, cell, ok)
				}
			}
			if a, b := ix.entryCell("t", value, "r").Row, ix.entryCell("t", stored, "r").Row; (a < b) != (value < stored) {
				t.Errorf("%q and %q sort as %q and %q", value, stored, a, b)
			}
			foreign := Entry{Cell: Cell{ix.table("t"), key, indexColumn}, Value: []byte(stored)}
			if cell, v, ok := ix.decodeEntry("t", foreign); ok && ix.entryCell("t", v, cell.Row) != foreign.Cell {
				t.Errorf("the key %q with row %q was taken for %q in %s", key, stored, v, cell)
			}
		}
	})
}

// FuzzTypedColumns: bytes that are not of a column's type are ErrCorrupt, and what is accepted has the same bytes again.
func FuzzTypedColumns(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("12345678"))
	f.Add([]byte(`{"Name":"x"}`))
	type record struct{ Name string }
	number, object := Int64("t", "c"), JSON[record]("t", "c")
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := number.Decode("r", b); err == nil {
			if again, err := number.encode(n); err != nil || string(again) != string(b) {
				t.Errorf("%q is %d, which is %q", b, n, again)
			}
		} else if len(b) == 8 || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
		if v, err := object.Decode("r", b); err == nil {
			again, err := object.encode(v)
			if err != nil {
				t.Fatal(err)
			}
			if w, err := object.Decode("r", again); err != nil || w != v {
				t.Errorf("%q is %+v, and then %+v, %v", b, v, w, err)
			}
		}
	})
}
