package percolator

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// FuzzDecodeSchema: the stored schema is refused, or what it says is stored again as it was read; one that Validate accepts serves.
func FuzzDecodeSchema(f *testing.F) {
	for _, s := range []*Schema{
		{},
		{Tables: []Table{{Name: "t"}}},
		{Tables: []Table{{Name: "t", Observed: []string{"\xff", `"`, "a.b"}, Weak: []string{"\n"}, Indexes: []Index{{Name: "ix", Column: `"q"`, Unique: true}}, Splits: []string{"m"}}, {Name: "u"}}},
	} {
		f.Add(s.encode())
	}
	for _, b := range []string{"", "{", "null", "[]", `{"Tables":null}`, `{"Tables":[{"Name":"percolator_meta"}]}`, `{"Tables":[{"Name":"t","Observed":["\"x"]}]}`, `{"Tables":[{"Name":"t","Weak":["\"\\xff\""]}]}`, `{"Timing":{"MetaMaxAge":-1}}`} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSchema(b)
		if err != nil || s.Validate() != nil {
			return
		}
		encoded := s.encode()
		again, err := decodeSchema(encoded)
		if err != nil || string(again.encode()) != string(encoded) {
			t.Fatalf("%q is stored as %q, and then as %q, %v", b, encoded, again.encode(), err)
		}
		if err := s.covers(again); err != nil {
			t.Errorf("%q does not cover itself: %v", b, err)
		}
		cat := newCatalog(s)
		for _, table := range s.Tables {
			if info, ok := cat.user(table.Name); !ok || len(info.Observed) != len(table.Observed) {
				t.Errorf("table %q is not in the catalog", table.Name)
			}
		}
		if _, ok := cat.user(metaTable); ok {
			t.Errorf("%q opens the meta table to callers", b)
		}
	})
}

// FuzzDecodeMeta: each column of the meta row is refused or understood, whatever its name and bytes.
func FuzzDecodeMeta(f *testing.F) {
	hold := Hold{ID: "x", Timestamp: 5, Expires: 7, Reason: "backup"}
	f.Add(hold.column(), hold.encode())
	f.Add(holdPrefix, []byte("short"))
	f.Add(metaSchema, (&Schema{Tables: []Table{{Name: "t"}}}).encode())
	f.Add(metaVersion, []byte("12345678"))
	f.Add(metaSafe, []byte("1234567"))
	f.Add(metaMark, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add(metaIndexes, indexStates{"t.ix": {Building: true}}.encode())
	f.Add(metaIndexes, []byte("null"))
	f.Add("of a later version", []byte("anything"))
	f.Fuzz(func(t *testing.T, column string, value []byte) {
		var m meta
		if err := m.decode(column, value); err != nil {
			return
		}
		switch column {
		case metaVersion, metaSafe, metaMark:
			if len(value) != 8 {
				t.Errorf("%s: %d bytes were accepted", column, len(value))
			}
		case metaIndexes:
			again, err := decodeIndexStates(m.indexes.encode())
			if err != nil || !reflect.DeepEqual(again, m.indexes) {
				t.Errorf("%q is %v, and then %v, %v", value, m.indexes, again, err)
			}
		}
		for _, h := range m.holds {
			again, err := decodeHold(h.column(), h.encode())
			if err != nil || again != h {
				t.Errorf("%q is %+v, and then %+v, %v", value, h, again, err)
			}
		}
	})
}

// FuzzDecodePositions: the positions that the collector and a backfill leave in the meta table are refused, or kept as they are, with row keys of any
// bytes.
func FuzzDecodePositions(f *testing.F) {
	var st collectorCell
	st.Row = "\xff\x00row"
	f.Add(st.encode(), "\xff\x00")
	b, err := json.Marshal(backfillCell{RowKey: []byte("\xfe")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "row")
	f.Add([]byte("{}"), "")
	f.Add([]byte("null"), "\xc3")
	f.Add([]byte(`{"RowKey":"!"}`), "x")
	f.Fuzz(func(t *testing.T, b []byte, row string) {
		if st, err := decodeCollectorCell(b); err == nil {
			st.Row = row
			if again, err := decodeCollectorCell(st.encode()); err != nil || again.Row != row {
				t.Errorf("row %q of the collector comes back as %q, %v", row, again.Row, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
		if _, err := decodeBackfillCell(b); err == nil && !json.Valid(b) {
			t.Errorf("%q was taken for the position of a backfill", b)
		}
	})
}
