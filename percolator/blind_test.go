package percolator_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/internal/fixture"
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
