package store

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// rowsBackend answers every read with the same rows.
type rowsBackend struct {
	Backend
	rows []layout.Row
}

func (b rowsBackend) ReadRow(context.Context, string, string, Query) (layout.Row, error) {
	return b.rows[0], nil
}

func (b rowsBackend) ReadRows(_ context.Context, _ string, _ Rows, _ Query, _ int, _ func(string), visit func(layout.Row) bool) error {
	for _, r := range b.rows {
		if !visit(r) {
			return nil
		}
	}
	return nil
}

// A row counts as large by all values that one answer has of it, from 64 MiB on and not below.
func TestLargeRowsAreCounted(t *testing.T) {
	t.Parallel()
	half := make([]byte, LargeRow/2)
	row := func(key string, values ...[]byte) layout.Row {
		r := layout.Row{Key: key}
		for _, v := range values {
			r.Items = append(r.Items, layout.Item{Family: layout.DataFamily, Column: "c", Value: v})
		}
		return r
	}
	var count telemetry.Counters
	s := New(t.Context(), rowsBackend{rows: []layout.Row{row("a", half, half), row("b", half, half[1:])}}, &count)
	if _, err := s.ReadRow(t.Context(), "t", "a", Anything()); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadRows(t.Context(), "t", Rows{}, Anything(), 0, func(layout.Row) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if large, all := count.LargeRows.Load(), count.RowsRead.Load(); large != 2 || all != 3 {
		t.Errorf("%d of %d rows are large, want 2 of 3", large, all)
	}
}
