package sweep

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// A sweep among rows with the longest keys: where it is and where it began are longer than what a
// filter can hold twice. It is saved again and again, and the next one goes on there (J10).
func TestSweepOfRowsWithLongKeys(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	w, err := New(&engine.Engine{Config: l.Config, Store: l.Store, Clock: l.Clock, Meta: l.Meta}, model.SweepConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{4060, model.MaxRowKeyBytes} {
		s, err := w.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key := strings.Repeat("\xff", n)
		s.state.First, s.state.Table, s.state.Row = place{"t", []byte(key)}, "t", key
		for range 2 {
			if err := s.save(t.Context()); err != nil {
				t.Fatalf("keys of %d bytes: %v", n, err)
			}
		}
		if size := len(s.lease.Stored); size < 10_300 || size > 12_000 {
			t.Errorf("keys of %d bytes: %d bytes", n, size)
		}
		s.release(t.Context())
		if s, err = w.acquire(t.Context()); err != nil || s.state.Row != key || string(s.state.First.Row) != key {
			t.Fatalf("keys of %d bytes: %v", n, err)
		}
		s.release(t.Context())
	}
}
