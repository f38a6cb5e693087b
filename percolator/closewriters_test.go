package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// TestClosesBesideWriters: what was committed before or while a client is closed, by several
// callers at once, is there for the next client.
func TestClosesBesideWriters(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	c := env.NewClient()
	var mu sync.Mutex
	var committed []string
	var g errgroup.Group
	enough := make(chan struct{})
	var once sync.Once
	for w := range 8 {
		g.Go(func() error {
			for i := 0; ; i++ {
				row := fmt.Sprintf("%d-%d", w, i)
				_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
					return errors.Join(tx.Set(fixture.Cell(row, "c"), []byte("v")), tx.Set(fixture.Cell(row+"x", "c"), []byte("v")))
				})
				if errors.Is(err, percolator.ErrClosed) || errors.Is(err, percolator.ErrOutcomeUnknown) {
					return nil
				}
				if err != nil {
					return err
				}
				mu.Lock()
				if committed = append(committed, row); len(committed) == 100 {
					once.Do(func() { close(enough) })
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	for range 3 {
		g.Go(c.Close)
	}
	fixture.Must(t, g.Wait())
	for _, row := range committed {
		fixture.WantNow(t, ctx, env.Client, fixture.Cell(row, "c"), "v")
		fixture.WantNow(t, ctx, env.Client, fixture.Cell(row+"x", "c"), "v")
	}
}

// TestTimestampsOfBlindTransactions: a blind transaction may get a new start timestamp while it
// commits. Whoever looks meanwhile never sees it go back, and the commits of a row have no overlap.
func TestTimestampsOfBlindTransactions(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	last := env.Client
	var former int64
	for i := range 200 {
		tx, err := last.Begin(ctx, percolator.Blind())
		fixture.Must(t, err)
		fixture.Must(t, tx.Set(fixture.Cell("hot", "c"), []byte(fmt.Sprint(i))))
		done := make(chan struct{})
		var g errgroup.Group
		g.Go(func() error {
			for seen := tx.StartTimestamp(); ; {
				now := tx.StartTimestamp()
				if now < seen {
					return fmt.Errorf("the start timestamp went from %d to %d", seen, now)
				}
				seen = now
				select {
				case <-done:
					return nil
				default:
					runtime.Gosched()
				}
			}
		})
		commit, err := tx.Commit(ctx)
		close(done)
		fixture.Must(t, errors.Join(err, g.Wait()))
		if start := int64(tx.StartTimestamp()); start <= former || int64(commit) <= start {
			t.Fatalf("transaction %d has [%d, %d] after a commit at %d", i, start, commit, former)
		}
		former = int64(commit)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("hot", "c"), "199")
}
