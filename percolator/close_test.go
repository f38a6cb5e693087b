package percolator_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/commit"
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

// Close ends although the store does not answer any more.
func TestCloseWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	c := env.NewClient()
	held := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return held
		}
		return percolatortest.Pass
	})
	tx := mustBegin(t, ctx, c)
	must(t, errors.Join(tx.Set(cell("a", "c"), []byte("v")), tx.Set(cell("b", "c"), []byte("v"))))
	mustCommit(t, ctx, tx)
	held.Wait(t, 1)
	began := time.Now()
	wantErr(t, c.Close(), context.DeadlineExceeded)
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("Close took %v", d)
	}
	wantNow(t, ctx, env.Client, cell("b", "c"), "v") // nothing is lost
	held.Drop()
}

// An Acknowledge of a finished transaction must not tell an observer to run, or not to.
func TestAcknowledgeOnFinishedTransaction(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	tx := mustBegin(t, ctx, env.Client)
	must(t, tx.Rollback(ctx))
	_, err := (*commit.Txn)(tx).Acknowledge(ctx, cell("r", "seen"), "O", []string{"O"})
	wantErr(t, err, percolator.ErrTxnDone)
}

// Messages name table, row and column; a table whose name contains a dot is a table like any other.
func TestMessagesNameTheRow(t *testing.T) {
	t.Parallel()
	s := &percolator.Schema{Tables: []percolator.Table{{Name: "web.pages"}}}
	if err := s.Validate(); err != nil {
		wantErr(t, err, percolator.ErrInvalidArgument)
		return
	}
	if got := (percolator.Cell{Table: "web.pages", Row: "example.org", Column: "c"}).String(); !strings.Contains(got, "example.org") {
		t.Errorf("the cell is called %s", got)
	}
}

// A conflict is the answer as soon as it is known: a row whose tablet does not answer must not hold it back for the request
// lifetime.
func TestConflictDoesNotWaitForUnavailableRows(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithTimeout(testContext(t), 15*time.Second)
	defer cancel()
	c := env.NewClient()
	tx := mustBegin(t, ctx, c)
	must(t, tx.Set(cell("primary", "c"), nil))
	must(t, tx.Set(cell("down", "c"), nil))
	must(t, tx.Set(cell("contested", "c"), nil))
	put(t, ctx, env.Client, "contested", "c", "v")
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if isPrewrite(r) && r.Row == "down" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	began := time.Now()
	_, err := tx.Commit(ctx)
	wantErr(t, err, percolator.ErrConflict)
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("the conflict was told after %v", d)
	}
}

// A dead transaction's locks are judged by one look at its primary, however many a reader meets: the verdict is final.
func TestLocksOfOneTransactionAreJudgedOnce(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	rows := []string{"0 primary"}
	for i := range 30 {
		rows = append(rows, key(i))
	}
	crashAfter(t, env, nil, rows...)
	env.Clock.Advance(lockTTL)
	s, err := c.Snapshot(ctx)
	must(t, err)
	env.FaultsOf(c).Forget()
	must(t, firstError(s.Scan(ctx, "t", percolator.Prefix("row"))))
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
