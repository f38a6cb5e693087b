package percolator_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The client is closed while a commit is looking for its outcome: the outcome stays unknown, at once, not after the request lifetime.
func TestCloseDuringSearchForOutcome(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	c := env.NewClient()
	var commits atomic.Int64
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if isCommit(r) {
			commits.Add(1)
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	tx := mustBegin(t, ctx, c)
	must(t, tx.Set(cell("r", "c"), []byte("v")))
	done := make(chan error, 1)
	go func() {
		_, err := tx.Commit(ctx)
		done <- err
	}()
	eventually(t, "the commit has been lost twice", func() bool { return commits.Load() >= 2 })
	must(t, c.Close())
	closed := time.Now()
	wantErr(t, <-done, percolator.ErrOutcomeUnknown, percolator.ErrClosed)
	if d := time.Since(closed); d > 5*time.Second {
		t.Errorf("Commit went on for %v after Close", d)
	}
}
