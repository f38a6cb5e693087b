package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// A blind transaction that is moved to a later start timestamp must look at its indexes there: what
// it replaces is the value that its own client committed in between.
func TestBlindTransactionKeepsIndexesWhenItIsMoved(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	mail := percolator.String("people", "mail")
	set := func(ctx context.Context, row, value string) error {
		_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return mail.Set(tx, row, value) })
		return err
	}
	blind := fixture.MustBegin(t, ctx, env.Client, percolator.Blind())
	fixture.Must(t, set(ctx, "ann", "old@example.org"))
	fixture.Must(t, mail.Set(blind, "ann", "new@example.org"))
	if _, err := blind.Commit(ctx); err != nil {
		fixture.WantErr(t, err, percolator.ErrConflict) // right as well
		fixture.Must(t, set(ctx, "ann", "new@example.org"))
	}
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	var got []string
	for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
		fixture.Must(t, err)
		got = append(got, string(e.Value))
	}
	if len(got) != 1 || got[0] != "new@example.org" {
		t.Errorf("the index holds %q, the row only new@example.org", got)
	}
	fixture.Must(t, set(ctx, "bob", "old@example.org")) // nobody has it
}

// The same for uniqueness: what was free at the first start timestamp is taken at the second.
func TestBlindTransactionChecksUniquenessWhereItIsMovedTo(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	mail := percolator.String("people", "mail")
	blind := fixture.MustBegin(t, ctx, env.Client, percolator.Blind())
	_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return mail.Set(tx, "ann", "x@example.org") })
	fixture.Must(t, err)
	fixture.Must(t, mail.Set(blind, "bob", "x@example.org"))
	if ts, err := blind.Commit(ctx); err == nil {
		t.Errorf("committed at %d: two rows hold one value of a unique index", ts)
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

// A blind transaction must not lose against what its own client has committed before it began.
func TestBlindTransactionsOneAfterAnother(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	for i := range 20 {
		_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			return tx.Set(fixture.Cell("r", "c"), fmt.Append(nil, i))
		}, percolator.Blind(), percolator.MaxAttempts(1))
		if err != nil {
			t.Fatalf("transaction %d, alone in the store: %v", i, err)
		}
	}
}

// A blind transaction reads nothing, and costs no request for its start timestamp once one is at
// hand.
func TestBlindReadsNothing(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c, percolator.Blind())
	fixture.WantErr(t, fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "c"))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("r", "c"))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("r", "c"))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.FirstError(tx.Scan(ctx, "t", percolator.All())), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.All())), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"})), percolator.ErrInvalidArgument)
	fixture.WantErr(t, tx.Insert(fixture.Cell("r", "c"), nil), percolator.ErrInvalidArgument)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	fixture.Must(t, tx.Delete(fixture.Cell("r", "d")))
	fixture.MustCommit(t, ctx, tx)
	fixture.WantNow(t, ctx, c, fixture.Cell("r", "c"), "v")

	// Concurrent writers still conflict.
	a, b := fixture.MustBegin(t, ctx, c, percolator.Blind()), fixture.MustBegin(t, ctx, env.NewClient(), percolator.Blind())
	fixture.Must(t, a.Set(fixture.Cell("x", "c"), []byte("a")))
	fixture.Must(t, b.Set(fixture.Cell("x", "c"), []byte("b")))
	fixture.MustCommit(t, ctx, a)
	fixture.WantErr(t, fixture.ErrOf(b.Commit(ctx)), percolator.ErrConflict)
}
