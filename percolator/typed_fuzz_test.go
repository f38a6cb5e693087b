package percolator

import (
	"errors"
	"testing"
)

// FuzzTypedColumns: bytes that are not of a column's type are ErrCorrupt, and what is accepted has
// the same bytes again.
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
