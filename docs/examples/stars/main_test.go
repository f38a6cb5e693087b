package main

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestSumUp runs the observer for a review that is written, changed and deleted, and twice each time.
func TestSumUp(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "reviews", Observed: []string{"stars"}}, {Name: "products"}}})
	change := observers.Change{Cell: percolator.Cell{Table: "reviews", Row: "teapot/1", Column: "stars"}}
	for _, now := range []int64{5, 2, 0} {
		for range 2 {
			var n, sum int64
			_, err := env.Client.Update(t.Context(), func(ctx context.Context, tx *percolator.Txn) (err error) {
				if err = sumUp(ctx, tx, change, now); err != nil {
					return err
				}
				if n, err = reviews.Get(ctx, tx, "teapot"); err != nil {
					return err
				}
				sum, err = total.Get(ctx, tx, "teapot")
				return err
			})
			if err != nil || n != min(now, 1) || sum != now {
				t.Errorf("with %d stars: %d reviews, %d stars, %v", now, n, sum, err)
			}
		}
	}
}
