package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// changesHolds recognizes a request that takes, extends or releases a hold.
func changesHolds(r percolatortest.Request) bool {
	return r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta"
}

// A late copy of an earlier request does not take back an extension that was acknowledged after it.
func TestLateDuplicateDoesNotShortenAHold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"take", "extend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewCollectorEnv(t)
			ctx, c := fixture.Context(t), env.Client
			late := percolatortest.NewHold()
			if name == "take" {
				env.FaultsOf(c).Handle(fixture.AtMost(1, changesHolds, late.Copy()))
			}
			h, err := admin.New(c).TakeHold(ctx, 0, 2*time.Minute, "")
			fixture.Must(t, err)
			if name == "extend" {
				env.FaultsOf(c).Handle(fixture.AtMost(1, changesHolds, late.Copy()))
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
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	late := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(1, changesHolds, late.Copy()))
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
	env := fixture.NewCollectorEnv(t)
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
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	lose := func() { env.FaultsOf(c).Handle(fixture.AtMost(1, changesHolds, percolatortest.LoseAnswer)) }
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
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	c := env.NewClient(fixture.ShortRetention)
	h, err := admin.New(c).TakeHold(ctx, 0, 0, "")
	fixture.Must(t, err)
	g := fixture.NewCollector(t, c, admin.CollectorConfig{})
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

func TestHoldsRefused(t *testing.T) {
	t.Parallel()
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	for name, take := range map[string]func() error{
		"of the future":       func() error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, now.Add(time.Hour), 0, "")) },
		"at a negative time":  func() error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, -1, 0, "")) },
		"for too long":        func() error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, 0, model.MaxHoldTTL+1, "")) },
		"for less than no":    func() error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, 0, -1, "")) },
		"with a long reason":  func() error { return fixture.ErrOf(admin.New(c).TakeHold(ctx, 0, 0, string(make([]byte, 257)))) },
		"released without ID": func() error { return admin.New(c).ReleaseHold(ctx, model.Hold{}) },
	} {
		if err := take(); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("a hold %s: %v", name, err)
		}
	}
	if holds, err := admin.New(c).Holds(ctx); err != nil || len(holds) != 0 {
		t.Errorf("holds: %v, %v", holds, err)
	}
}

// TestCollectionBounds: the next safepoint is as new as the retention allows, unless a hold that
// has not expired lies before it.
func TestCollectionBounds(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	c := env.Client
	b, err := admin.New(c).CollectionBounds(ctx)
	fixture.Must(t, err)
	if b.Next != b.Now.Add(-b.Retention) || b.HeldBy != nil || b.Safepoint != 0 || b.Watermark != 0 {
		t.Fatalf("%+v", b)
	}
	h, err := admin.New(c).TakeHold(ctx, b.Next.Add(-time.Minute), time.Hour, "")
	fixture.Must(t, err)
	_, err = admin.New(c).TakeHold(ctx, b.Now, time.Hour, "")
	fixture.Must(t, err)
	b, err = admin.New(c).CollectionBounds(ctx)
	fixture.Must(t, err)
	if b.HeldBy == nil || b.HeldBy.ID != h.ID || b.Next != h.Timestamp-1 {
		t.Errorf("with a hold: %+v", b)
	}
	_, err = admin.New(c).ExtendHold(ctx, h, time.Millisecond)
	fixture.Must(t, err)
	env.Clock.Advance(time.Second)
	b, err = admin.New(c).CollectionBounds(ctx)
	fixture.Must(t, err)
	if b.HeldBy != nil || b.Next != b.Now.Add(-b.Retention) {
		t.Errorf("after the hold has expired: %+v", b)
	}
}

func TestNothingIsReturnedBesideAnError(t *testing.T) {
	t.Parallel()
	a := admin.New(fixture.NewEnv(t).Client)
	if c, err := a.NewCollector(model.CollectorConfig{RowsPerSecond: -1}); c != nil || !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("collector %v, %v", c, err)
	}
	if s, err := a.NewSweeper(model.SweepConfig{RowsPerSecond: -1}); s != nil || !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("sweeper %v, %v", s, err)
	}
}
