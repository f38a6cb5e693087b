package admin_test

import (
	"github.com/gopercolator/percolator/percolator/model"

	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A late copy of an earlier request does not take back an extension that was acknowledged after it.
func TestLateDuplicateDoesNotShortenAHold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"take", "extend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newCollectorEnv(t)
			ctx, c := fixture.Context(t), env.Client
			isHold := func(r percolatortest.Request) bool {
				return r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta"
			}
			late := percolatortest.NewHold()
			var h model.Hold
			var err error
			if name == "take" {
				env.FaultsOf(c).Handle(fixture.AtMost(1, isHold, late.Copy()))
			}
			h, err = admin.New(c).TakeHold(ctx, 0, 2*time.Minute, "")
			fixture.Must(t, err)
			if name == "extend" {
				env.FaultsOf(c).Handle(fixture.AtMost(1, isHold, late.Copy()))
				h, err = admin.New(c).ExtendHold(ctx, h, 2*time.Minute)
				fixture.Must(t, err)
			}
			long, err := admin.New(c).ExtendHold(ctx, h, 24*time.Hour)
			fixture.Must(t, err)
			late.Release()
			holds, err := admin.New(c).Holds(ctx)
			fixture.Must(t, err)
			if len(holds) != 1 || holds[0].Expires != long.Expires {
				t.Errorf("the hold was acknowledged until %v, stored is until %v", long.Expires.Time(), holds[0].Expires.Time())
			}
		})
	}
}

// A late copy of TakeHold does not bring a released hold back.
func TestLateDuplicateDoesNotReviveAHold(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	late := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool {
		return r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta"
	}, late.Copy()))
	h, err := admin.New(c).TakeHold(ctx, 0, model.MaxHoldTTL, "")
	fixture.Must(t, err)
	fixture.Must(t, admin.New(c).ReleaseHold(ctx, h))
	late.Release()
	if holds, err := admin.New(c).Holds(ctx); err != nil || len(holds) != 0 {
		t.Errorf("after the release: %v, %v", holds, err)
	}
}

// ExtendHold changes when a hold expires and nothing else, whatever the caller's value says.
func TestExtendHoldKeepsTheSnapshot(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	h, err := admin.New(c).TakeHold(ctx, 0, 0, "")
	fixture.Must(t, err)
	_, err = admin.New(c).ExtendHold(ctx, model.Hold{ID: h.ID}, 0)
	holds, herr := admin.New(c).Holds(ctx)
	fixture.Must(t, herr)
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).ExtendHold(ctx, model.Hold{}, 0)), percolator.ErrInvalidArgument)
	if len(holds) != 1 || holds[0].Timestamp != h.Timestamp {
		t.Errorf("ExtendHold(ID only) = %v moved the hold from %d to %+v", err, h.Timestamp, holds)
	}
}

// A request for a hold whose answer is lost is repeated, and succeeds once.
func TestHoldsWithLostAnswers(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	lose := func() {
		env.FaultsOf(c).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool {
			return r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta"
		}, percolatortest.LoseAnswer))
	}
	lose()
	h, err := admin.New(c).TakeHold(ctx, 0, 0, "")
	fixture.Must(t, err)
	lose()
	longer, err := admin.New(c).ExtendHold(ctx, h, 2*time.Hour)
	fixture.Must(t, err)
	holds, err := admin.New(c).Holds(ctx)
	if err != nil || len(holds) != 1 || holds[0] != longer || longer.Expires <= h.Expires {
		t.Errorf("holds: %v, %v", holds, err)
	}
	lose()
	fixture.Must(t, admin.New(c).ReleaseHold(ctx, h))
	if holds, err := admin.New(c).Holds(ctx); err != nil || len(holds) != 0 {
		t.Errorf("holds: %v, %v", holds, err)
	}
}

func TestHoldsAndCollectionAfterClose(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx := fixture.Context(t)
	c := env.NewClient(percolatortest.Configure(shortRetention))
	h, err := admin.New(c).TakeHold(ctx, 0, 0, "")
	fixture.Must(t, err)
	g := collector(t, c, admin.CollectorConfig{})
	fixture.Must(t, c.Close())
	for name, f := range map[string]func() error{
		"ReleaseHold": func() error { return admin.New(c).ReleaseHold(ctx, h) },
		"ExtendHold":  func() error { return fixture.ErrOf(admin.New(c).ExtendHold(ctx, h, 0)) },
		"TakeHold":    func() error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, 0, 0, "")) },
		"Holds":       func() error { return fixture.ErrOf(admin.New(c).Holds(ctx)) },
		"Collection":  func() error { return fixture.ErrOf(admin.New(c).Collection(ctx)) },
		"Collect":     func() error { return fixture.ErrOf(g.Collect(ctx)) },
		"BackfillIndex": func() error {
			return fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", admin.BackfillOptions{}))
		},
		"VerifyIndex": func() error {
			return fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{}))
		},
	} {
		if err := f(); !errors.Is(err, percolator.ErrClosed) && !(name == "BackfillIndex" && err == nil) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

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

// The name of an observer becomes part of a column, so it cannot hold the byte that separates its
// parts.
func TestAcknowledgeRefusesNames(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	for _, name := range []string{"", "a\x00b"} {
		tx := fixture.MustBegin(t, ctx, env.Client)
		fixture.WantErr(t, fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), name, []string{name})), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O", name})), percolator.ErrInvalidArgument)
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

// A collector that loses every announcement to a new hold has met a conflict, not a lock.
func TestAnnouncementsThatHoldsOvertake(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.NewClient(percolatortest.Configure(shortRetention))
	env.Clock.Advance(afterwards)
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	holds := 0
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta" && r.Row != "collector" {
			holds++ // each one older than the safepoint that is about to be announced
			_, err := admin.New(env.Client).TakeHold(ctx, now.Add(-time.Duration(holds)*time.Hour), 0, "")
			fixture.Must(t, err)
		}
		return percolatortest.Pass
	})
	_, err = collector(t, c, admin.CollectorConfig{}).Collect(ctx)
	fixture.WantErr(t, err, percolator.ErrConflict)
	if errors.Is(err, percolator.ErrLocked) || holds != 8 {
		t.Errorf("after %d holds: %v", holds, err)
	}
}
