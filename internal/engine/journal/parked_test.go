package journal

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

func parkedState() model.ObserverState {
	return model.ObserverState{
		Cell:     model.Cell{Table: "t", Row: strings.Repeat("r", model.MaxRowKeyBytes), Column: "\xff\x01"},
		Observer: "o", Through: 7, Attempts: 3, Reason: "poison", Since: time.Unix(5, 0).UTC(), Observers: []string{"o", "p\xff"},
	}
}

// A parked row names a cell whatever its length, and is itself a key that Bigtable takes.
func TestParkedRowsNameTheirCells(t *testing.T) {
	t.Parallel()
	want := parkedState()
	row, _ := Parked(want)
	if len(row) != 33 {
		t.Errorf("a key of %d bytes", len(row))
	}
	it := layout.Item{Column: parkedPrefix + "o", Timestamp: 7000, Value: encodeParked(want)}
	got, err := decodeParked(row, it)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v: %v", got, err)
	}
	if _, err := decodeParked(row[:len(row)-1]+"x", it); err == nil {
		t.Error("a row of another cell was accepted")
	}
}

// FuzzParked: bytes that nobody wrote are an error, never a panic; what is accepted can be written.
func FuzzParked(f *testing.F) {
	row, _ := Parked(parkedState())
	f.Add(row, parkedPrefix+"o", encodeParked(parkedState()), int64(7000))
	f.Add(row, parkedPrefix, []byte{parkedVersion, 0, 0, 0, 0}, int64(1))
	f.Add("", "", []byte{}, int64(0))
	f.Fuzz(func(t *testing.T, row, column string, value []byte, ts int64) {
		s, err := decodeParked(row, layout.Item{Column: column, Value: value})
		if err != nil {
			return
		}
		if key, _ := Parked(s); key != row {
			t.Errorf("%+v of row %q is written to %q", s, row, key)
		}
		if again, err := decodeParked(row, layout.Item{Column: column, Value: encodeParked(s)}); err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%+v was written as %+v: %v", s, again, err)
		}
	})
}
