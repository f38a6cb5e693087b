package catalog

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator/model"
)

// Entries sort as the values do, then by row, and every value comes back.
func TestIndexEntriesKeepTheOrderOfValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ix := model.Index{Name: "ix", Column: "c"}
		v, w := anyBytes(0, 8).Draw(t, "v"), anyBytes(0, 8).Draw(t, "w")
		r, s := anyBytes(1, 6).Draw(t, "r"), anyBytes(1, 6).Draw(t, "s")
		a, b := IndexEntryCell(ix, "t", v, r).Row, IndexEntryCell(ix, "t", w, s).Row
		want := v < w || v == w && r < s
		if (a < b) != want {
			t.Errorf("%q in row %q and %q in row %q: the entries sort %v, want %v", v, r, w, s, a < b, want)
		}
		if (a == b) != (v == w && r == s) {
			t.Errorf("%q in row %q and %q in row %q share an entry", v, r, w, s)
		}
		for _, unique := range []bool{false, true} {
			ix.Unique = unique
			if got, ok := ValueOf(IndexEntryCell(ix, "t", v, r).Row); !ok || got != v {
				t.Errorf("%q in row %q comes back as %q, %v", v, r, got, ok)
			}
		}
	})
}

// The range of values that ScanIndex is given names exactly the entries of its values.
func TestIndexRangesHoldExactlyTheirValues(t *testing.T) {
	t.Parallel()
	ix := model.Index{Name: "ix", Column: "c"}
	rapid.Check(t, func(t *rapid.T) {
		v, row := anyBytes(0, 6).Draw(t, "v"), anyBytes(1, 6).Draw(t, "row")
		values := rapid.OneOf(
			rapid.Map(anyBytes(0, 6), model.Row),
			rapid.Map(anyBytes(0, 3), model.Prefix),
			rapid.Custom(func(t *rapid.T) model.Range {
				return model.Between(anyBytes(0, 6).Draw(t, "from"), anyBytes(0, 6).Draw(t, "to"))
			}),
			rapid.Just(model.All()),
		).Draw(t, "values")
		keys := model.Range{Start: EscapeValue(values.Start), End: EscapeValue(values.End)}
		if got, want := InRange(keys, IndexEntryCell(ix, "t", v, row).Row), InRange(values, v); got != want {
			t.Errorf("values %q: %q in row %q is in it: %v, want %v", values, v, row, got, want)
		}
	})
}

func TestValueOfRefusesWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "a", "\x00", "\x00\xff", "a\x00", "\x00\xff\x00", "a\x00\xffb"} {
		if v, ok := ValueOf(key); ok {
			t.Errorf("%q is an entry of %q", key, v)
		}
	}
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
			if CheckIndexEntry(ix, model.Cell{Table: "t", Row: row, Column: "c"}, []byte(value)) == nil && ValidateRow(model.Cell{Table: "t", Row: row, Column: "c"}) == nil {
				at := IndexEntryCell(ix, "t", value, row)
				cell, v, ok := DecodeIndexEntry(ix, "t", model.Entry{Cell: at, Value: []byte(row)})
				if !ok || v != value || cell != (model.Cell{Table: "t", Row: row, Column: "c"}) {
					t.Errorf("%q in row %q comes back as %q in %s, %v", value, row, v, cell, ok)
				}
			}
			if a, b := IndexEntryCell(ix, "t", value, "r").Row, IndexEntryCell(ix, "t", stored, "r").Row; (a < b) != (value < stored) {
				t.Errorf("%q and %q sort as %q and %q", value, stored, a, b)
			}
			foreign := model.Entry{Cell: model.Cell{Table: IndexTable("t", ix), Row: key, Column: IndexColumn}, Value: []byte(stored)}
			if cell, v, ok := DecodeIndexEntry(ix, "t", foreign); ok && IndexEntryCell(ix, "t", v, cell.Row) != foreign.Cell {
				t.Errorf("the key %q with row %q was taken for %q in %s", key, stored, v, cell)
			}
		}
	})
}
