package history_test

import (
	"maps"
	"testing"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/tso"
)

// A snapshot that was given the start timestamp of a deletion (MaxStaleness) does not pass for it.
func TestWriterStarts(t *testing.T) {
	h := history.New()
	cell := history.Cell{Table: "t", Row: "r", Column: "c"}
	for start, write := range []func(*history.Txn){
		func(tx *history.Txn) { tx.Read(cell, nil) },
		func(tx *history.Txn) { tx.Delete(cell) },
		func(tx *history.Txn) { tx.Put(cell, []byte("v")) },
	} {
		tx := h.Begin("client", "test")
		tx.Started(tso.Timestamp(start + 1))
		write(tx)
	}
	if got, want := h.WriterStarts(), map[tso.Timestamp]bool{2: true, 3: true}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
