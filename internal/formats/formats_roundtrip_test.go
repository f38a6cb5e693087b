package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator/model"
)

// Rows of any table come back from every format as they were, or are refused by their key where the
// format does not hold them, and only there.
func TestRoundTripOfEachFormat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table, names := drawnTable(t)
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row { return drawnRow(t, table, names) }), 1, 8).Draw(t, "rows")
		key := rapid.SampledFrom(append([]string{"id", "row", "é\n", "\ufeffkey"}, names...)).Draw(t, "key")
		form, err := table.NewCSV(nil, key)
		header := map[string]bool{}
		if err == nil {
			for _, name := range form.names[1:] {
				header[name] = true
			}
		}

		var nested, flat, text []byte
		var packed bytes.Buffer
		parquet := table.NewParquetWriter(&packed)
		var flatRows, textRows []Row
		for _, r := range rows {
			nested, _ = table.AppendJSON(nested, r)
			if _, err := parquet.Write(r); err != nil {
				t.Fatal(err)
			}
			foreign := slices.ContainsFunc(r.Cells, func(c Cell) bool {
				_, ok := table.declared(c.Column)
				return !ok && table.info.Declared != nil && c.Column != key
			})
			line, _, lerr := table.AppendFlat(nil, key, r)
			switch back, berr := table.ParseFlat(line, key); {
			case lerr != nil:
				refused(t, r, lerr, keyMayFail(table, key, r))
			case foreign:
				if !errors.Is(berr, model.ErrInvalidArgument) || !strings.Contains(berr.Error(), "does not declare it") {
					t.Fatalf("%s: %q, %v", line, back, berr)
				}
			default:
				flat, flatRows = append(flat, line...), append(flatRows, r)
			}
			if err != nil {
				continue
			}
			more, cerr := form.Append(text, r)
			if cerr != nil {
				refused(t, r, cerr, keyMayFail(table, key, r) || !utf8.ValidString(r.Key) || slices.ContainsFunc(r.Cells, func(c Cell) bool {
					of := table.typeOf(c.Column)
					_, derr := of.Decode(c.Value)
					return c.Column != key && (!header[c.Column] || derr != nil || of.IsText() && !utf8.Valid(c.Value))
				}))
				continue
			}
			text, textRows = more, append(textRows, r)
		}
		if err := parquet.Close(); err != nil {
			t.Fatal(err)
		}
		same := func(format string, got []Row, err error, want []Row) {
			if err != nil || !slices.EqualFunc(got, want, sameRow) {
				t.Fatalf("%s, key %q: %q, %v, want %q", format, key, got, err, want)
			}
		}
		got, err := all(table.ReadJSON(bytes.NewReader(nested), ""))
		same("JSON", compact(table, got), err, compact(table, rows))
		got, err = readParquet(table, packed.Bytes())
		same("Parquet", got, err, rows)
		got, err = all(table.ReadJSON(bytes.NewReader(flat), key))
		same("flat JSON", compact(table, got), err, compact(table, flatRows))
		if len(textRows) > 0 {
			got, err = readCSV(table, string(text), key)
			same("CSV", got, err, textRows)
		}
	})
}

// compact leaves out the white space between the parts of documents, which lines of JSON do not
// keep.
func compact(table *Table, rows []Row) (list []Row) {
	for _, r := range rows {
		r.Cells = slices.Clone(r.Cells)
		for i, c := range r.Cells {
			var b bytes.Buffer
			if table.typeOf(c.Column) == model.TypeJSON && json.Compact(&b, c.Value) == nil {
				r.Cells[i].Value = b.Bytes()
			}
		}
		list = append(list, r)
	}
	return list
}

// keyMayFail tells whether the name of the key is one of the row's columns, or should be.
func keyMayFail(table *Table, key string, r Row) bool {
	return table.StoresKey(key) || slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Column == key })
}

func refused(t *rapid.T, r Row, err error, may bool) {
	if !may || !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), "row "+shownKey(r.Key)+":") {
		t.Fatalf("%q is refused: %v", r, err)
	}
}

var drawnNames = []string{"a", "é", "b,c", `q"x`, `"q`, "\xff", " s ", "row", "columns", "id", "line\nbreak", "\ufeffmark", "p:1", "p:2", "base64", "null"}

// drawnTable is a table, and the columns that it can have.
func drawnTable(t *rapid.T) (*Table, []string) {
	var columns []model.ColumnSchema
	var names []string
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(drawnNames), rapid.ID).Draw(t, "declared") {
		if !strings.HasPrefix(name, "p:") {
			columns = append(columns, model.ColumnSchema{Name: name, Type: rapid.SampledFrom(model.Types).Draw(t, "type")})
			names = append(names, name)
		}
	}
	if rapid.Bool().Draw(t, "prefix") {
		columns = append(columns, model.ColumnSchema{Name: "p:*", Type: rapid.SampledFrom(model.Types).Draw(t, "type of p:*")})
		names = append(names, "p:1", "p:2")
	}
	if len(columns) == 0 || rapid.IntRange(0, 9).Draw(t, "others") == 0 {
		names = drawnNames
	}
	return tableOf(columns...), names
}

func drawnRow(t *rapid.T, table *Table, names []string) Row {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "7", "-07", "true", "null", "NULL", "\r\n", `"`, `""`, ",", " x ", "\ufeff", "\\N", "\xff", "2024-01-02", "é"}), rapid.String())
	r := Row{Key: rapid.OneOf(rapid.SampledFrom([]string{"7", "-07", "true", "k\xff", `"`, "2024-01-02", "\r", "null", "\ufeff"}), rapid.StringN(1, 8, -1)).Draw(t, "key of the row")}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "columns") {
		r.Cells = append(r.Cells, Cell{name, drawnValue(t, table.typeOf(name), text, r.Key)})
	}
	return r
}

// drawnValue is mostly one of the type; that of a column with the key's name may be the key.
func drawnValue(t *rapid.T, of model.Type, text *rapid.Generator[string], key string) []byte {
	if stored, err := ofText(of, []byte(key)); err == nil && rapid.IntRange(0, 3).Draw(t, "as the key") == 0 {
		return stored
	}
	if rapid.IntRange(0, 9).Draw(t, "any") == 0 {
		return []byte(text.Draw(t, "anything"))
	}
	switch of {
	case model.TypeInt64, model.TypeOrderedInt64, model.TypeTime:
		return binary.BigEndian.AppendUint64(nil, rapid.Uint64().Draw(t, "n"))
	case model.TypeFloat64:
		return values.EncodeFloat64(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1e21, 1e-7})).Draw(t, "f"))
	case model.TypeBool:
		return []byte{rapid.ByteRange(0, 1).Draw(t, "b")}
	case model.TypeJSON:
		return []byte(rapid.SampledFrom([]string{"null", " null", `"x"`, `{"a":[1,2.50,null]}`, "{\n \"a\": \"é,\\\"\"\r\n}", `{"base64":"AA=="}`, `"\ud800"`, "7"}).Draw(t, "doc"))
	}
	return []byte(text.Draw(t, "text"))
}
