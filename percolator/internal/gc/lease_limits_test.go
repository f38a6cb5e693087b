package gc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// A cycle by passes over hundreds of tables, as many as an instance may have, with the longest
// keys: its state is longer than what a filter can hold twice. It is saved as often as the lease
// needs it, and the next collector goes on there (J10).
func TestCycleOverAllTables(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	e := &engine.Engine{Config: l.Config, Store: l.Store, Clock: l.Clock, Meta: l.Meta}
	for _, n := range []int{400, model.MaxTables} {
		g, err := NewCollector(e, model.CollectorConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.state.Phase = model.CollectionErase
		want := map[string]tablePosition{}
		for i := range n {
			name := fmt.Sprintf("%s%04d", strings.Repeat("n", 46), i)
			want[name] = tablePosition{Row: []byte(strings.Repeat("\xff", model.MaxRowKeyBytes))}
		}
		s.tables = maps.Clone(want)
		last := slices.Max(slices.Collect(maps.Keys(want)))
		for range 2 {
			if err := s.advance(t.Context(), last, want[last]); err != nil {
				t.Fatal(err)
			}
			if err := s.save(t.Context()); err != nil {
				t.Fatalf("%d tables: %v", n, err)
			}
		}
		size := len(s.lease.Stored)
		s.release(t.Context())
		t.Logf("%d tables: %d bytes", n, size)
		if size < 10_300 || size > 10_000_000 {
			t.Errorf("%d tables: %d bytes", n, size)
		}
		l.Oracle.Pass(time.Hour) // on a busy machine the lease was not given up within its time
		if s, err = g.acquire(t.Context()); err != nil {
			t.Fatalf("%d tables: %v", n, err)
		}
		s.startTables(maps.Keys(want))
		for name, at := range want {
			if got := s.tables[name]; got.Done != at.Done || string(got.Row) != string(at.Row) {
				t.Fatalf("table %s is at %q", name, got.Row)
			}
		}
		s.release(t.Context())
	}
}
