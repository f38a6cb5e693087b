package cli

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// FuzzTypedJSON: whatever is stored, commands show JSON and text, and the text form of what is of
// the type is that of the JSON.
func FuzzTypedJSON(f *testing.F) {
	for i := range model.Types {
		for _, b := range []string{"", "abc", "\xff", `{"a": 1e400}`, `"\ud800"`, strings.Repeat("[", 9990) + strings.Repeat("]", 9990), "\x01", string(values.EncodeFloat64(math.NaN())), string(values.EncodeFloat64(1e21)), string(values.EncodeInt64(-1))} {
			f.Add(uint8(i), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, value []byte) {
		typ := model.Types[int(n)%len(model.Types)]
		if value == nil {
			value = []byte{}
		}
		out := typedJSON(typ, value)
		text, err := EncodeJSON("", CellJSON{CellNameJSON: CellNameJSON{Table: "t"}, ValueJSON: out})
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s: %q is shown as %q, %v", typ, value, text, err)
		}
		if (out.Value == nil) == (out.Base64 == nil) {
			t.Errorf("%s: %q is shown in both forms, or none: %q", typ, value, text)
		}
		form, wrong := typ.Format(value)
		if wrong == nil && typ != percolator.TypeBytes && out.Value == nil && (typ != percolator.TypeJSON || formats.Embeddable(value)) {
			t.Errorf("%s: %q is shown as base64", typ, value)
		}
		if shown := TypedText(typ, value); wrong != nil && !strings.HasSuffix(shown, "("+wrong.Error()+")") || wrong == nil && shown != shownValue([]byte(form)) {
			t.Errorf("%s: %q is shown as %s", typ, value, shown)
		}
	})
}

// Keys that differ look different to programs, and come back.
func TestKeysInJSON(t *testing.T) {
	t.Parallel()
	keys := []string{"k", "k\xff", "k\xfe", "k\ufffd", `k\xff`, `"k\xff"`, "é\n", "\u202e", ""}
	seen := map[string]bool{}
	for _, key := range keys {
		encoded, err := EncodeJSON("", CellJSON{CellNameJSON: NewCellNameJSON(percolator.Cell{Table: "t", Row: key}), ValueJSON: ValueJSON{Value: `"as it is"`}})
		if err != nil {
			t.Fatal(err)
		}
		var out struct{ Row, Value string }
		if err := json.Unmarshal(encoded, &out); err != nil || out.Value != `"as it is"` {
			t.Errorf("%s: %v", encoded, err)
		}
		if back, err := text.FromShown(out.Row); back != key || err != nil || seen[out.Row] {
			t.Errorf("%q is %q, and comes back as %q, %v", key, out.Row, back, err)
		}
		seen[out.Row] = true
	}
}
