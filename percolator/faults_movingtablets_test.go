package percolator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestTransfersWhileTabletsMove: tablets that move and split under transactions, so that requests
// of them are refused, also in the middle of a batch, lose no transfer and double none.
func TestTransfersWhileTabletsMove(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testTransfersWhileTabletsMove)
}

func testTransfersWhileTabletsMove(t *testing.T) {
	ctx := fixture.Context(t)
	disks := &emulator.Disks{}
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "by_sum", Column: "sum"}}}}}, fixture.OnDisks(disks))
	sum := percolator.Int64("t", "sum")
	const accounts, each = 300, 1000
	if _, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range accounts {
			if err := sum.Set(tx, fixture.Key(i), each); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	moved := make([]int64, accounts)
	var mu sync.Mutex
	for range 8 {
		client := env.NewClient()
		writers.Go(func() {
			for n := range 25 {
				switch key := fixture.Key(rand.IntN(accounts)); {
				case n%5 == 0:
					disks.Split("t", key)
				default:
					disks.Move("t", key, 1+rand.IntN(3))
				}
				from, to, amount := rand.IntN(accounts), rand.IntN(accounts), int64(1+rand.IntN(9))
				if from == to {
					continue
				}
				_, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					a, err := sum.Get(ctx, tx, fixture.Key(from))
					if err != nil {
						return err
					}
					b, err := sum.Get(ctx, tx, fixture.Key(to))
					if err != nil {
						return err
					}
					if err := sum.Set(tx, fixture.Key(from), a-amount); err != nil {
						return err
					}
					return sum.Set(tx, fixture.Key(to), b+amount)
				})
				if err != nil {
					t.Errorf("a transfer: %v", err)
					continue
				}
				mu.Lock()
				moved[from] -= amount
				moved[to] += amount
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	if err := env.Client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for i := range accounts {
			if v, err := sum.Get(ctx, s, fixture.Key(i)); err != nil || v != each+moved[i] {
				return fmt.Errorf("account %d has %d, want %d: %w", i, v, each+moved[i], err)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	env.Audit(t)
}
