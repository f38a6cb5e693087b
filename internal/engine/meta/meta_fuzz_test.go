package meta

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// FuzzDecodeSchema: the decoder or Validate refuses the bytes, or the schema survives a round trip,
// covers itself, and serves.
func FuzzDecodeSchema(f *testing.F) {
	for _, s := range []*model.Schema{
		{},
		{Tables: []model.Table{{Name: "t"}}},
		{Tables: []model.Table{{Name: "t"}}, DisableJournal: true},
		{Tables: []model.Table{{Name: "t", Observed: []string{"\xff", `"`, "a.b"}, Weak: []string{"\n"}, Indexes: []model.Index{{Name: "ix", Column: `"q"`, Unique: true}}, Splits: []string{"m"}}, {Name: "u"}}},
		{Tables: []model.Table{{Name: "t", TTL: time.Hour, Columns: []model.ColumnSchema{{Name: "c", Type: model.TypeInt64}, {Name: "\xff*", TTL: time.Minute}}}}, DisableJournal: true},
	} {
		f.Add(catalog.EncodeSchema(s))
	}
	for _, b := range []string{"", "{", "null", "[]", `{"Tables":null}`, `{"Format":7,"Tables":[{"Name":"percolator_meta"}]}`, `{"Format":7,"Tables":[{"Name":"t","Observed":["\"x"]}]}`, `{"Format":7,"Tables":[{"Name":"t","Weak":["\"\\xff\""]}]}`, `{"Format":7,"Timing":{"MetaMaxAge":-1}}`} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := catalog.DecodeSchema(b)
		if err != nil || catalog.Validate(s) != nil {
			return
		}
		encoded := catalog.EncodeSchema(s)
		again, err := catalog.DecodeSchema(encoded)
		if err != nil || string(catalog.EncodeSchema(again)) != string(encoded) {
			t.Fatalf("%q is stored as %q, and then as %q, %v", b, encoded, catalog.EncodeSchema(again), err)
		}
		if err := covers(s, again); err != nil {
			t.Errorf("%q does not cover itself: %v", b, err)
		}
		cat := catalog.New(s)
		for _, table := range s.Tables {
			if info, ok := cat.UserTable(table.Name); !ok || len(info.Observed) != len(table.Observed) {
				t.Errorf("table %q is not in the catalog", table.Name)
			}
		}
		if _, ok := cat.UserTable(model.MetaTable); ok {
			t.Errorf("%q opens the meta table to callers", b)
		}
	})
}

// FuzzDecodeMeta: the decoder refuses or understands each column of the meta row, whatever its name
// and bytes.
func FuzzDecodeMeta(f *testing.F) {
	hold := model.Hold{ID: "x", Timestamp: 5, Expires: 7, Reason: "backup"}
	f.Add(holdColumn(hold), encodeHold(hold))
	f.Add(holdPrefix, []byte("short"))
	f.Add(metaSchema, catalog.EncodeSchema(&model.Schema{Tables: []model.Table{{Name: "t"}}}))
	f.Add(ColumnVersion, []byte("12345678"))
	f.Add(columnTiming, []byte(`{"MetaMaxAge":1}`))
	f.Add(metaSafe, []byte("1234567"))
	f.Add(ColumnWatermark, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add(ColumnIndexes, IndexStates{"t.ix": {Building: true}}.Encode())
	f.Add(ColumnIndexes, []byte("null"))
	f.Add(columnJournal, layout.JSON(buildingJournal()))
	f.Add(columnJournal, []byte("null"))
	f.Add(columnLives, layout.JSON(Lives{"t.ix": 7}))
	f.Add("of a later version", []byte("anything"))
	f.Fuzz(func(t *testing.T, column string, value []byte) {
		var m State
		if err := m.decode(column, value); err != nil {
			return
		}
		switch column {
		case ColumnVersion, metaSafe, ColumnWatermark:
			if len(value) != 8 {
				t.Errorf("%s: %d bytes were accepted", column, len(value))
			}
		case ColumnIndexes:
			var again IndexStates
			if err := json.Unmarshal(m.Indexes.Encode(), &again); err != nil || !reflect.DeepEqual(again, m.Indexes) {
				t.Errorf("%q is %v, and then %v, %v", value, m.Indexes, again, err)
			}
		}
		for _, h := range m.Holds {
			again, err := decodeHold(holdColumn(h), encodeHold(h))
			if err != nil || again != h {
				t.Errorf("%q is %+v, and then %+v, %v", value, h, again, err)
			}
		}
	})
}
