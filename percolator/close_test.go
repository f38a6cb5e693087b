package percolator_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/internal/fixture"
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

// An Acknowledge of a finished transaction must not tell an observer to run, or not to.
func TestAcknowledgeOnFinishedTransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Rollback(ctx))
	_, err := (*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"})
	fixture.WantErr(t, err, percolator.ErrTxnDone)
}

// Messages name table, row and column; a table whose name contains a dot is a table like any other.
func TestMessagesNameTheRow(t *testing.T) {
	t.Parallel()
	s := &percolator.Schema{Tables: []percolator.Table{{Name: "web.pages"}}}
	if err := s.Validate(); err != nil {
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		return
	}
	if got := (percolator.Cell{Table: "web.pages", Row: "example.org", Column: "c"}).String(); !strings.Contains(got, "example.org") {
		t.Errorf("the cell is called %s", got)
	}
}

// A conflict is the answer as soon as it is known: a row whose tablet does not answer must not hold
// it back for the request lifetime.
func TestConflictDoesNotWaitForUnavailableRows(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithTimeout(fixture.Context(t), 15*time.Second)
	defer cancel()
	c := env.NewClient()
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("primary", "c"), nil))
	fixture.Must(t, tx.Set(fixture.Cell("down", "c"), nil))
	fixture.Must(t, tx.Set(fixture.Cell("contested", "c"), nil))
	fixture.Put(t, ctx, env.Client, "contested", "c", "v")
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Row == "down" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	began := time.Now()
	_, err := tx.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrConflict)
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("the conflict was told after %v", d)
	}
}

// A dead transaction's locks are judged by one look at its primary, however many a reader meets:
// the verdict is final.
func TestLocksOfOneTransactionAreJudgedOnce(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	rows := []string{"0 primary"}
	for i := range 30 {
		rows = append(rows, fixture.Key(i))
	}
	fixture.CrashAfter(t, env, nil, rows...)
	env.Clock.Advance(fixture.LockTTL)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	env.FaultsOf(c).Forget()
	fixture.Must(t, fixture.FirstError(s.Scan(ctx, "t", percolator.Prefix("row"))))
	judged := 0
	for _, r := range env.FaultsOf(c).Requests() {
		if r.Table == "t" && r.Row == rows[0] {
			judged++
		}
	}
	if judged > 4 {
		t.Errorf("%d requests to the primary for %d locks of one transaction", judged, len(rows)-1)
	}
}
