package main

import (
	"context"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func schema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{Name: "reviews", Observed: []string{"stars"}}, {Name: "products"}}}
}

// TestSumUp runs the observer for a review that is written, changed and deleted, and twice each
// time.
func TestSumUp(t *testing.T) {
	env := percolatortest.New(t, schema())
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

// TestWorker runs a worker, and waits until it has worked through what was written.
func TestWorker(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, schema())
		registry := observers.NewRegistry()
		observers.Observe(registry, "products", stars, sumUp)
		worker, err := observers.NewWorker(env.Client, registry, observers.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		_, err = env.Client.Update(t.Context(), func(_ context.Context, tx *percolator.Txn) error {
			return errors.Join(stars.Set(tx, "teapot/1", 5), stars.Set(tx, "teapot/2", 2))
		})
		err = errors.Join(err, worker.WaitIdle(t.Context()))
		stop()
		err = errors.Join(err, <-ended, env.Client.View(t.Context(), func(ctx context.Context, s *percolator.Snapshot) error {
			sum, err := total.Get(ctx, s, "teapot")
			if err == nil && sum != 7 {
				t.Errorf("%d stars, want 7", sum)
			}
			return err
		}))
		if err != nil {
			t.Fatal(err)
		}
		env.Audit(t) // the tables hold nothing that the protocol does not allow
	})
}
