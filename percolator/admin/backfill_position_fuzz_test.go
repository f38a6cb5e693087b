package admin

import (
	"encoding/json"
	"testing"
)

// FuzzDecodeBackfillPosition: the position that a backfill leaves in the meta table is refused, or
// it is one.
func FuzzDecodeBackfillPosition(f *testing.F) {
	b, err := json.Marshal(backfillCell{RowKey: []byte("\xfe")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}"))
	f.Add([]byte("null"))
	f.Add([]byte(`{"RowKey":"!"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := decodeBackfillCell(b); err == nil && !json.Valid(b) {
			t.Errorf("%q was taken for the position of a backfill", b)
		}
	})
}
