package gc

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TestPositionsOfTables: a successor goes on in each table where the collector was, and one that
// knows a single position begins no later than that in any table that is not done.
func TestPositionsOfTables(t *testing.T) {
	t.Parallel()
	tables := slices.Values([]string{"a", "b", "c", "d", "e"})
	newCollecting := func() *collecting {
		s := &collecting{Collector: &Collector{cfg: model.CollectorConfig{Progress: func(model.Collection) {}}}, lease: Held[collectorCell]{LeaseCell: LeaseCell[collectorCell]{ttl: time.Hour}}}
		_, _, err := s.lease.Extend(t.Context(), func(context.Context) (tso.Timestamp, error) { return 1, nil })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := newCollecting()
	s.startTables(tables)
	for _, step := range []struct {
		table, row string
		done       bool
		want       string // Table and Row
	}{
		{"c", "c1", false, " "},
		{"a", "a1", false, "a a1"},
		{"b", "b9", true, "a a1"},
		{"a", "a9", true, "c c1"},
		{"e", "\xff", false, "c c1"},
		{"d", "d9", true, "c c1"},
	} {
		if err := s.advance(t.Context(), step.table, tablePosition{[]byte(step.row), step.done}); err != nil {
			t.Fatal(err)
		}
		if got := s.state.Table + " " + s.state.Row; got != step.want {
			t.Errorf("after %s %q: at %q, want %q", step.table, step.row, got, step.want)
		}
	}
	saved, err := decodeCollectorCell(s.state.encode())
	if err != nil {
		t.Fatal(err)
	}
	next := newCollecting()
	next.state = saved
	done := tablePosition{Done: true}
	want := map[string]tablePosition{"a": done, "b": done, "c": {Row: []byte("c1")}, "d": {Row: []byte("d9"), Done: true}, "e": {Row: []byte("\xff")}}
	if got := next.startTables(tables); !reflect.DeepEqual(got, want) {
		t.Errorf("a successor begins at %v, want %v", got, want)
	}
	next.state.Tables = nil // as a collector leaves it that knows one table at a time
	want["d"], want["e"] = tablePosition{}, tablePosition{}
	if got := next.startTables(tables); !reflect.DeepEqual(got, want) {
		t.Errorf("without further positions a successor begins at %v, want %v", got, want)
	}
}
