package transfer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// mutated remembers what is sent.
type mutated struct {
	store.Backend
	muts []*store.Mutation
}

func (b *mutated) MutateRows(_ context.Context, _ string, _ []string, muts []*store.Mutation) ([]error, error) {
	b.muts = append(b.muts, muts...)
	return nil, nil
}

// want checks that so many changes were sent, in mutations that Bigtable takes.
func (b *mutated) want(t testing.TB, changes int) {
	t.Helper()
	all := 0
	for _, m := range b.muts {
		n := len(m.Changes())
		if all += n; n > model.MaxMutationsPerRow {
			t.Errorf("a mutation has %d changes", n)
		}
	}
	if all != changes || len(b.muts) < 2 {
		t.Errorf("%d changes in %d mutations, want %d", all, len(b.muts), changes)
	}
}

func newMutated(t testing.TB) (*mutated, *store.Store) {
	t.Helper()
	b := new(mutated)
	s := store.New(t.Context(), b, &telemetry.Counters{})
	s.Trace, s.Timing = telemetry.NewSpans(nil), catalog.EffectiveTiming(model.Timing{})
	t.Cleanup(s.Stop)
	return b, s
}

// A row with many columns, each with many observers, is written by several mutations, each cell
// whole.
func TestRowsWithManyObserversAreDivided(t *testing.T) {
	t.Parallel()
	b, s := newMutated(t)
	const columns, observers = 1000, 200
	row, table := model.ExportedRow{Row: "r"}, model.Table{Name: "t"}
	for i := range columns {
		c := model.ExportedCell{Column: fmt.Sprint("c", i), Kind: model.ExportedPut, Value: []byte("v")}
		for n := range observers {
			c.Acknowledged = append(c.Acknowledged, fmt.Sprint("o", n))
		}
		row.Cells, table.Observed = append(row.Cells, c), append(table.Observed, c.Column)
	}
	info, _ := catalog.New(&model.Schema{Tables: []model.Table{table}}).UserTable("t")
	w := &writer{store: s, stamps: stamps{1, 2, 3, 4}, before: func(ctx context.Context, _ []model.JournalName) (context.Context, context.CancelFunc, error) {
		return ctx, func() {}, nil
	}}
	if err := w.write(t.Context(), info, []model.ExportedRow{row}); err != nil {
		t.Fatal(err)
	}
	b.want(t, columns*(2+observers))
	for _, m := range b.muts {
		values := slices.DeleteFunc(slices.Clone(m.Changes()), func(c store.Change) bool { return c.Family != layout.DataFamily })
		if len(m.Changes()) != len(values)*(2+observers) {
			t.Errorf("%d values are in a mutation of %d changes", len(values), len(m.Changes()))
		}
	}
}

// What an aborted import has written to one row is erased by several mutations.
func TestErasuresOfAnAbortedRowAreDivided(t *testing.T) {
	t.Parallel()
	b, s := newMutated(t)
	im := &Import{e: &engine.Engine{Store: s}, table: "t", cell: meta.Import{Start: 1, Commit: 2}}
	row := layout.Row{Key: "r"}
	for i := range model.MaxMutationsPerRow/2 + 1 {
		column := fmt.Sprint("c", i)
		row.Items = append(row.Items, layout.Item{Family: layout.DataFamily, Column: column, Timestamp: layout.CellTime(1)},
			layout.Item{Family: layout.WriteFamily, Column: column, Timestamp: layout.CellTime(2)})
	}
	n, err := im.erasePage(t.Context(), "t", []layout.Row{row}, func(context.Context) error { return nil })
	if err != nil || n != 1 {
		t.Errorf("%d rows are erased, %v", n, err)
	}
	b.want(t, len(row.Items))
}
