package admin_test

import (
	"errors"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// A Lock that no transaction can have placed does nothing.
func TestResolveLockOfNoTransaction(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]model.Lock{
		"zero start":     {Kind: "put"},
		"future start":   {Kind: "put", StartTS: 1 << 52},
		"negative start": {Kind: "put", StartTS: -1},
	} {
		t.Run(name, func(t *testing.T) {
			env := fixture.NewEnv(t)
			ctx, c := fixture.Context(t), env.Client
			fixture.Put(t, ctx, c, "r", "c", "v")
			l.Cell, l.Primary = fixture.Cell("r", "c"), fixture.Cell("r", "c")
			if r, err := admin.New(c).ResolveLock(ctx, l); r != model.LockGone && !errors.Is(err, percolator.ErrInvalidArgument) {
				t.Errorf("%v, %v", r, err)
			}
			fixture.WantNow(t, ctx, c, fixture.Cell("r", "c"), "v")
			tx := fixture.MustBegin(t, ctx, c)
			fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("w")))
			fixture.MustCommit(t, ctx, tx)
		})
	}
}

// A lock that is passed once more when another transaction has committed at its start timestamp
// must not touch that record.
func TestResolveLockAtACommitTimestamp(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	ts := fixture.Put(t, ctx, c, "r", "c", "v")
	env.Clock.Advance(fixture.LockTTL)
	r, err := admin.New(c).ResolveLock(ctx, model.Lock{Cell: fixture.Cell("r", "c"), Primary: fixture.Cell("r", "c"), StartTS: ts, Placed: ts, Kind: "put"})
	if err != nil || r != model.LockGone {
		t.Errorf("%v, %v", r, err)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("r", "c"), "v")
}
