package percolator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A commit request that waits for its turn until the caller's time has passed, as Bigtable asks to
// slow down, was never sent: the transaction has not committed, and its error does not leave that
// open.
func TestCommitThatWasNotSentIsNotUnknown(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, env := fixture.Context(t), fixture.NewEnv(t)
		c := env.Client
		snap, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		tx := fixture.MustBegin(t, ctx, c)
		fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("1")))
		fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("1")))
		var prewrites atomic.Int64
		var refused atomic.Bool
		timestamp := percolatortest.NewHold() // of the commit
		env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Method == percolatortest.CheckAndMutateRow && r.Table == "t":
				prewrites.Add(1)
			case r.Method == percolatortest.Oracle && prewrites.Load() == 2:
				return timestamp
			case r.Method == percolatortest.ReadRows && r.Table == "t" && refused.CompareAndSwap(false, true):
				return percolatortest.Refuse(slowDown(codes.ResourceExhausted, 5*time.Second))
			}
			return percolatortest.Pass
		})
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := tx.Commit(short)
			done <- err
		}()
		timestamp.Wait(t, 1)
		go func() { _, _ = snap.Get(ctx, fixture.Cell("x", "c")) }()
		time.Sleep(100 * time.Millisecond) // in virtual time: until it is refused
		timestamp.Release()
		err = <-done
		if err == nil || errors.Is(err, percolator.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || !refused.Load() {
			t.Errorf("%v", err)
		}
		time.Sleep(10 * time.Second)
		for _, row := range []string{"a", "b"} {
			fixture.WantNow(t, ctx, env.NewClient(), fixture.Cell(row, "c"), "")
		}
	})
}
