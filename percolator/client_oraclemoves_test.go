package percolator_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A machine that is suspended with its processes does not see time pass. The oracle's clock, which
// these tests advance, tells it when it continues (I16).

const suspendedRetention = 20 * time.Minute

func newSuspendedEnv(t *testing.T) *percolatortest.Env {
	t.Helper()
	return fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = suspendedRetention }))
}

// A transaction does not commit if more than half the retention has passed for the oracle, be it
// before or during the commit.
func TestCommitAfterTheOracleHasMovedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after func(percolatortest.Request) bool // the oracle moves on at this request; nil: before the commit
		by    time.Duration
		want  error
	}{
		"within half the retention":    {fixture.IsPrewrite, suspendedRetention/2 - time.Minute, nil},
		"between prewrite and commit":  {fixture.IsPrewrite, suspendedRetention/2 + time.Minute, percolator.ErrSnapshotTooOld},
		"before the commit":            {nil, suspendedRetention/2 + time.Minute, percolator.ErrSnapshotTooOld},
		"before, for more than it all": {nil, suspendedRetention + time.Minute, percolator.ErrSnapshotTooOld},
		"after the commit timestamp":   {fixture.IsCommit, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newSuspendedEnv(t)
			ctx, client := fixture.Context(t), env.Client
			fixture.Put(t, ctx, client, "r", "c", "old", "s", "c", "old")
			tx := fixture.MustBegin(t, ctx, client)
			fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("new")))
			fixture.Must(t, tx.Set(fixture.Cell("s", "c"), []byte("new")))
			if c.after == nil {
				env.Clock.Advance(c.by)
			}
			moved := false
			env.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
				if c.after != nil && !moved && c.after(r) {
					moved = true
					env.Clock.Advance(c.by)
				}
				return percolatortest.Pass
			})
			_, err := tx.Commit(ctx)
			fixture.WantErr(t, err, c.want)
			want := "new"
			if c.want != nil {
				want = "old"
			}
			other := env.NewClient()
			for _, row := range []string{"r", "s"} {
				fixture.WantNow(t, ctx, other, fixture.Cell(row, "c"), want)
			}
		})
	}
}

// Who learns that the oracle has moved on by more than the retention gets no more answers from an
// older snapshot, whether from a timestamp or from what another client has announced.
func TestReadAfterTheOracleHasMovedOn(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(t *testing.T, env *percolatortest.Env){
		"a timestamp": func(t *testing.T, env *percolatortest.Env) {
			fixture.MustBegin(t, fixture.Context(t), env.Client)
		},
		"a safepoint that another client announced": func(t *testing.T, env *percolatortest.Env) {
			ctx := fixture.Context(t)
			now, err := env.Oracle.Next(ctx)
			fixture.Must(t, err)
			_, err = env.NewClient().Engine().Meta.StoreSafepoint(ctx, 1, now)
			fixture.Must(t, err)
			_, err = env.Client.Engine().Meta.Refresh(ctx)
			fixture.Must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newSuspendedEnv(t)
			ctx, c := fixture.Context(t), env.Client
			fixture.Put(t, ctx, c, "a", "c", "v", "b", "c", "v")
			s, err := c.Snapshot(ctx)
			fixture.Must(t, err)
			fixture.WantValue(t, ctx, s, fixture.Cell("a", "c"), "v")
			env.Clock.Advance(suspendedRetention - time.Minute)
			learn(t, env)
			fixture.WantValue(t, ctx, s, fixture.Cell("b", "c"), "v")

			env.Clock.Advance(2 * time.Minute)
			learn(t, env)
			wantTooOld(t, s)
		})
	}
}

func wantTooOld(t *testing.T, s *percolator.Snapshot) {
	t.Helper()
	ctx := fixture.Context(t)
	_, err := s.Get(ctx, fixture.Cell("not read before", "c"))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	_, err = s.GetMulti(ctx, fixture.Cell("nor this", "c"), fixture.Cell("or this", "c"))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All())), percolator.ErrSnapshotTooOld)
}

// A hold keeps a snapshot readable until it expires, by the oracle's clock.
func TestHoldOutlastsTheRetention(t *testing.T) {
	t.Parallel()
	env := newSuspendedEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "a", "c", "v", "b", "c", "v", "d", "c", "v")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	later := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = suspendedRetention }))
	_, err = admin.New(c).TakeHold(ctx, s.StartTimestamp(), 2*time.Hour, "")
	fixture.Must(t, err)
	_, err = later.Engine().Meta.Refresh(ctx)
	fixture.Must(t, err)

	env.Clock.Advance(time.Hour)
	fixture.MustBegin(t, ctx, c)
	fixture.WantValue(t, ctx, s, fixture.Cell("a", "c"), "v")
	other, err := later.Snapshot(ctx, percolator.AsOfTimestamp(s.StartTimestamp()))
	fixture.Must(t, err)
	fixture.WantValue(t, ctx, other, fixture.Cell("b", "c"), "v")

	env.Clock.Advance(time.Hour + time.Minute)
	for client, s := range map[*percolator.Client]*percolator.Snapshot{c: s, later: other} {
		fixture.MustBegin(t, ctx, client)
		wantTooOld(t, s)
	}
}

// What a client has read in percolator_meta before its machine was suspended is as old as the
// oracle says, however little time has passed for the client.
func TestKnowledgeAgesByTheOracle(t *testing.T) {
	t.Parallel()
	const suspended = 5 * time.Minute // much less than half the retention
	observed := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}}}
	for name, began := range map[string]bool{"a transaction that began before": true, "one that begins afterwards": false} {
		t.Run("schema, "+name, func(t *testing.T) {
			t.Parallel()
			env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
			ctx, c := fixture.Context(t), env.Client
			tx := fixture.MustBegin(t, ctx, c)
			_, err := c.Engine().Meta.Refresh(ctx) // as every client does now and then
			fixture.Must(t, err)
			fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, observed, env.Options()...))
			env.Clock.Advance(suspended)
			if !began {
				tx = fixture.MustBegin(t, ctx, c)
			}
			fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
			_, err = tx.Commit(ctx)
			fixture.WantErr(t, err, percolator.ErrConflict) // without a notification
		})
	}
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		env := newSuspendedEnv(t)
		ctx, c, other := fixture.Context(t), env.Client, env.NewClient()
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		hold, err := admin.New(c).TakeHold(ctx, s.StartTimestamp(), 2*time.Hour, "")
		fixture.Must(t, err)
		fixture.Must(t, admin.New(other).ReleaseHold(ctx, hold))
		env.Clock.Advance(time.Hour)
		fixture.MustBegin(t, ctx, c)
		wantTooOld(t, s)
	})
}
