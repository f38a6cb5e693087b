package admin_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// As long as a snapshot from before the drop of an index may be read, and a transaction from before
// may commit, no index has its name (I26).
func TestNameOfADroppedIndexRests(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}, "city"), fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.Client
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome")
	fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), noWait(env))))
	again := peopleSchema(c.Schema().Timing, "city")
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, env.Instance, again, env.Options()...), percolator.ErrSchemaMismatch)
	again.Tables[0].Indexes[0].Name = "town"
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, again, env.Options()...))
	fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), noWait(env))))
	env.Clock.Advance(fixture.PastRetention)
	whenAnnounced(t, ctx, c, func() { addIndexes(t, ctx, env, c, "city") })
	fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)))
	fixture.WantIndex(t, ctx, c, "city")
}

// A read begins by old knowledge, in which its table is there, and is held up until the table has
// come back without the row (I26).
func TestGetOfATableThatWasDroppedAndCameBack(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		env := cityEnv(t, ctx)
		reader, held := env.NewClient(), percolatortest.NewHold()
		var sees atomic.Bool
		env.FaultsOf(reader).Handle(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Table == "people":
				return held
			case r.Table == "percolator_meta" && r.Row == "meta" && !sees.Load():
				return percolatortest.LoseRequest
			}
			return percolatortest.Pass
		})
		s, err := reader.Snapshot(ctx)
		fixture.Must(t, err)
		got := make(chan error, 1)
		comesBack(t, ctx, env, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}, func() {
			go func() { got <- fixture.ErrOf(fixture.City.Get(ctx, s, fixture.Key(1))) }()
			held.Wait(t, 1)
			sees.Store(true)
			learns(t, ctx, reader)()
		}, func() {
			held.Release()
			fixture.WantErr(t, <-got, percolator.ErrSchemaMismatch)
		})
	})
}

// A writer could not read the meta row while a unique index was dropped. That another row has a
// value it must not conclude from entries that nobody maintains (I26).
func TestUniqueValueByOldKnowledge(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) { s.Tables = peopleSchema(percolator.Timing{}, "mail").Tables })
		c := env.Client
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		writer, blind := metaBlind(env)
		blind.Store(true)
		drains := 0
		opts := noWait(env)
		opts.Wait = func(ctx context.Context, d time.Duration) error {
			time.Sleep(d)
			if drains++; drains == 2 {
				fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "other@x")
				blind.Store(false)
				fixture.SetPeople(t, ctx, writer, fixture.Mail, "bob", "ann@x")
			}
			return nil
		}
		fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), opts)))
		fixture.WantNow(t, ctx, c, fixture.Mail.Cell("bob"), "ann@x")
	})
}

// The process of a backfill is held up before a batch, while its index is dropped, and another one
// declared of that name, of another column. It writes nothing there (I26).
func TestBackfillHeldUpWhileItsIndexBecameAnother(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := halfBackfilled(t, ctx)
	late, held := env.NewClient(), percolatortest.NewHold()
	fixture.Must(t, fixture.ErrOf(late.Snapshot(ctx))) // it knows the oracle's time
	env.FaultsOf(late).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.Oracle }, held))
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(admin.New(late).BackfillIndex(ctx, "people", "city", atOnce)) }()
	held.Wait(t, 1)
	another := peopleSchema(env.Client.Schema().Timing, "city")
	another.Tables[0].Indexes[0].Column = "name"
	dropCity(t, ctx, env, another)
	held.Release()
	fixture.WantErr(t, <-done, percolator.ErrSchemaMismatch)
	if n := fixture.CellsOf(t, ctx, env, "people.city", "write"); n > 0 {
		t.Errorf("it has written %d entries", n)
	}
}
