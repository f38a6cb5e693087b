package percolator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The client is closed while a commit is looking for its outcome: the outcome stays unknown, at
// once, not after the request lifetime.
func TestCloseDuringSearchForOutcome(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	c := env.NewClient()
	var commits atomic.Int64
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			commits.Add(1)
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	done := make(chan error, 1)
	go func() {
		_, err := tx.Commit(ctx)
		done <- err
	}()
	fixture.Eventually(t, "the commit has been lost twice", func() bool { return commits.Load() >= 2 })
	fixture.Must(t, c.Close())
	closed := time.Now()
	fixture.WantErr(t, <-done, percolator.ErrOutcomeUnknown, percolator.ErrClosed)
	if d := time.Since(closed); d > 5*time.Second {
		t.Errorf("Commit went on for %v after Close", d)
	}
}

// Close ends although the store does not answer any more.
func TestCloseWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCloseWhileTheStoreIsDown)
}

func testCloseWhileTheStoreIsDown(t *testing.T) {
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	c := env.NewClient()
	held := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return held
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("v")), tx.Set(fixture.Cell("b", "c"), []byte("v"))))
	fixture.MustCommit(t, ctx, tx)
	held.Wait(t, 1)
	began := time.Now()
	fixture.WantErr(t, c.Close(), context.DeadlineExceeded)
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("Close took %v", d)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("b", "c"), "v") // nothing is lost
	held.Drop()
}
