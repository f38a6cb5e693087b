package gc

import (
	"errors"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// FuzzDecodeCollectorState: the position that the collector leaves in the meta table is refused, or
// kept as it is, with row keys of any bytes.
func FuzzDecodeCollectorState(f *testing.F) {
	var st collectorCell
	st.Row = "\xff\x00row"
	f.Add(st.encode(), "\xff\x00")
	f.Add([]byte(`{"RowKey":"/g=="}`), "row")
	f.Add([]byte("{}"), "")
	f.Add([]byte("null"), "\xc3")
	f.Add([]byte(`{"RowKey":"!"}`), "x")
	f.Fuzz(func(t *testing.T, b []byte, row string) {
		st, err := decodeCollectorCell(b)
		if err != nil {
			if !errors.Is(err, model.ErrCorrupt) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		st.Row, st.Tables = row, map[string]tablePosition{"t": {Row: []byte(row)}}
		again, err := decodeCollectorCell(st.encode())
		if err != nil || again.Row != row || string(again.Tables["t"].Row) != row {
			t.Errorf("row %q of the collector comes back as %q and %v, %v", row, again.Row, again.Tables, err)
		}
	})
}
