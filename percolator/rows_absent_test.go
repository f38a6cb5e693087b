package percolator_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// A row that lacks columns, as one does that is older than the fields, is read, one field is
// changed, and Put: only that one is written.
func TestPutOfARowThatLacksColumns(t *testing.T) {
	t.Parallel()
	type order struct {
		Key      string    `percolator:",key"`
		Customer string    `percolator:"customer"`
		Cents    int64     `percolator:"cents"`
		Note     string    `percolator:"note"`
		Tags     []string  `percolator:"tags,json"`
		Shipped  time.Time `percolator:"shipped"`
	}
	orders, err := percolator.RowOf[order]("t")
	fixture.Must(t, err)
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "customer", "ann")
	_, err = env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		o, err := orders.Get(ctx, tx, "r")
		if err != nil {
			return err
		}
		o.Cents = 5
		return orders.Put(tx, o)
	})
	if err != nil {
		t.Errorf("Put of what Get has returned: %v", err)
	}
	// The same without the time, which has no zero that can be stored.
	type small struct {
		Key      string   `percolator:",key"`
		Customer string   `percolator:"customer"`
		Cents    int64    `percolator:"cents"`
		Note     string   `percolator:"note"`
		Tags     []string `percolator:"tags,json"`
	}
	smalls, err := percolator.RowOf[small]("t")
	fixture.Must(t, err)
	_, err = env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		o, err := smalls.Get(ctx, tx, "r")
		if err != nil {
			return err
		}
		o.Cents = 5
		return smalls.Put(tx, o)
	})
	fixture.Must(t, err)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	got := ""
	for e, err := range s.Scan(ctx, "t", percolator.Row("r")) {
		fixture.Must(t, err)
		got += e.Cell.Column + " "
	}
	if got != "cents customer " {
		t.Errorf("the row has the columns %s, want cents customer", got)
	}
}
