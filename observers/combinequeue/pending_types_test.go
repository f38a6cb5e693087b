package combinequeue_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Contributions that the schema declares with another type are not decoded.
func TestContributionsOfAnotherType(t *testing.T) {
	t.Parallel()
	sum := func(a, b int64) int64 { return a + b }
	stored, err := combinequeue.New(combinequeue.Config[int64]{Values: percolator.OrderedInt64("queue", "sum"), Combine: sum})
	fixture.Must(t, err)
	read, err := combinequeue.New(combinequeue.Config[int64]{Values: percolator.Int64("queue", "sum"), Combine: sum})
	fixture.Must(t, err)
	table := stored.Table()
	table.Columns = []percolator.ColumnSchema{{Name: "0*", Type: percolator.TypeOrderedInt64}, {Name: "fold-*"}} // contributions begin with a timestamp
	totals := percolator.Table{Name: "totals", Columns: []percolator.ColumnSchema{{Name: "sum", Type: percolator.TypeOrderedInt64}}}
	c := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{table, totals}}).Client
	ctx := fixture.Context(t)
	total := percolator.OrderedInt64("totals", "sum")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return stored.Add(tx, "k", 5) }))
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	if v, err := stored.Value(ctx, s, total, "k"); v != 5 || err != nil {
		t.Errorf("value %d, %v", v, err)
	}
	fixture.WantErr(t, fixture.ErrOf(read.Value(ctx, s, total, "k")), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.FirstError(read.All(ctx, s)), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return read.Into(percolator.Int64("totals", "sum"))(ctx, tx, []combinequeue.Sum[int64]{{Key: "k", Value: 1}})
	}), percolator.ErrInvalidArgument)
}
