package percolator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// Whatever a goroutine does with the transactions of Updates, while they run and afterwards, it
// commits none that failed and takes nothing from those that commit.
func TestOnlyUpdateEndsItsTransactions(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	const updates, workers = 60, 4
	errNo := errors.New("no")
	lent := make(chan *percolator.Txn, updates)
	var meddlers, all sync.WaitGroup
	var commits, refused atomic.Int64
	for range 2 {
		meddlers.Go(func() {
			for tx := range lent {
				for range 50 {
					_, err := tx.Commit(ctx)
					switch {
					case err == nil:
						commits.Add(1)
					case errors.Is(err, percolator.ErrInvalidArgument):
						refused.Add(1)
					case !errors.Is(err, percolator.ErrTxnDone):
						t.Errorf("Commit: %v", err)
					}
					if err := tx.Rollback(ctx); err != nil && !errors.Is(err, percolator.ErrInvalidArgument) {
						t.Errorf("Rollback: %v", err)
					}
				}
			}
		})
	}
	var committed atomic.Int64
	for worker := range workers {
		all.Go(func() {
			for i := range updates {
				fails := (i+worker)%3 == 0
				_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					select {
					case lent <- tx:
					default:
					}
					if err := add(ctx, tx, "shared"); err != nil {
						return err
					}
					if fails {
						return errNo
					}
					return nil
				})
				switch {
				case err == nil && !fails:
					committed.Add(1)
				case !fails || !errors.Is(err, errNo):
					t.Errorf("Update: %v, fails %v", err, fails)
				}
			}
		})
	}
	all.Wait()
	close(lent)
	meddlers.Wait()
	if commits.Load() > 0 || refused.Load() == 0 {
		t.Errorf("others commit %d transactions, and are refused %d times", commits.Load(), refused.Load())
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("shared", "n"), string(binary.BigEndian.AppendUint64(nil, uint64(committed.Load()))))
}
