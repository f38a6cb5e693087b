package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/testing/fixture"
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
