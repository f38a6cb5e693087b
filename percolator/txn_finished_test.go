package percolator_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

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

// After Commit, whatever it returned, the transaction is finished.
func TestCommitWithEndedContextFinishesTheTransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	_, err := tx.Commit(ended)
	fixture.WantErr(t, err, context.Canceled)
	fixture.WantErr(t, tx.Set(fixture.Cell("r", "c"), []byte("v")), percolator.ErrTxnDone)
	_, err = tx.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrTxnDone)
	_, err = tx.Commit(ended)
	fixture.WantErr(t, err, percolator.ErrTxnDone)
}

func TestGetMultiOfNothingOnFinishedTransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Rollback(ctx))
	_, err := tx.GetMulti(ctx)
	fixture.WantErr(t, err, percolator.ErrTxnDone)
}
