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
// open. Beside one that was sent and answered so, which may have been applied, the error does.
func TestCommitThatWasNotSentIsNotUnknown(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"not sent": false, "sent before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testCommitThatWasNotSent(t, sent) })
		})
	}
}

func testCommitThatWasNotSent(t *testing.T, sent bool) {
	ctx, env := fixture.Context(t), fixture.NewEnv(t)
	c := env.Client
	snap, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("1")))
	var refused atomic.Bool
	timestamp := percolatortest.NewHold() // of the commit
	prewrites := 0
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case r.Method == percolatortest.ReadRows && r.Table == "t" && refused.CompareAndSwap(false, true):
			return percolatortest.Refuse(slowDown(codes.ResourceExhausted, 5*time.Second))
		case fixture.IsPrewrite(r):
			prewrites++
		case !sent && r.Method == percolatortest.Oracle && prewrites == 2:
			return timestamp
		case sent && fixture.IsCommit(r):
			return percolatortest.AnswerWith(slowDown(codes.ResourceExhausted, 5*time.Second))
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
	want := "1"
	if !sent {
		timestamp.Wait(t, 1)
		go func() { _, _ = snap.Get(ctx, fixture.Cell("x", "c")) }()
		time.Sleep(100 * time.Millisecond) // in virtual time: until it is refused
		timestamp.Release()
		want = ""
	}
	err = <-done
	if err == nil || errors.Is(err, percolator.ErrOutcomeUnknown) != sent || !errors.Is(err, context.DeadlineExceeded) || refused.Load() == sent {
		t.Errorf("%v", err)
	}
	time.Sleep(10 * time.Second)
	for _, row := range []string{"a", "b"} {
		fixture.WantNow(t, ctx, env.NewClient(), fixture.Cell(row, "c"), want)
	}
}
