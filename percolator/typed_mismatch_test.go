package percolator_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A typed column, and a field of a struct, are refused where the schema declares another type, even
// if the bytes are of both: an Int64 would read as a wrong OrderedInt64.
func TestColumnOfAnotherType(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, declaredSchema())
	ctx := fixture.Context(t)
	wrong, right := percolator.Int64("stock", "onhand"), percolator.OrderedInt64("stock", "onhand")
	type row struct {
		Key    string `percolator:",key"`
		OnHand int64  `percolator:"onhand"`
	}
	rows, err := percolator.RowOf[row]("stock")
	fixture.Must(t, err)
	refused := func(what string, err error) {
		t.Helper()
		t.Log(what)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
	reads := func(r percolator.Reader) {
		refused("Get", fixture.ErrOf(wrong.Get(ctx, r, "r")))
		refused("GetMulti", fixture.ErrOf(wrong.GetMulti(ctx, r, "r")))
		refused("Scan", fixture.FirstError(wrong.Scan(ctx, r, percolator.All())))
		refused("ScanIndex", fixture.FirstError(wrong.ScanIndex(ctx, r, "by-onhand", percolator.All())))
		refused("row Get", fixture.ErrOf(rows.Get(ctx, r, "r")))
		refused("row GetMulti", fixture.ErrOf(rows.GetMulti(ctx, r, "r")))
		refused("row Scan", fixture.FirstError(rows.Scan(ctx, r, percolator.All())))
	}
	_, err = env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		refused("Set", wrong.Set(tx, "r", 5))
		refused("Insert", wrong.Insert(tx, "r", 5))
		refused("GetForUpdate", fixture.ErrOf(wrong.GetForUpdate(ctx, tx, "r")))
		refused("row Put", rows.Put(tx, row{"r", 5}))
		refused("row Insert", rows.Insert(tx, row{"r", 5}))
		fixture.Must(t, percolator.String("stock", "item:1").Set(tx, "r", "{}")) // the text of JSON
		fixture.Must(t, percolator.Int64("stock", "any").Set(tx, "r", 5))
		fixture.Must(t, right.Set(tx, "r", 5))
		reads(tx)
		return nil
	})
	fixture.Must(t, err)
	fixture.Must(t, env.Client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		reads(s)
		if n, err := right.Get(ctx, s, "r"); n != 5 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		return nil
	}))
}
