package admin_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Nothing is read before the drain is over; whoever resumes a backfill that had waited need not
// wait again.
func TestBackfillWaitsForTheDrainOnce(t *testing.T) {
	t.Parallel()
	timing := percolator.Timing{RequestLifetime: 10 * time.Second, MetaMaxAge: 20 * time.Second}
	env := percolatortest.New(t, peopleSchema(timing))
	ctx, c := fixture.Context(t), env.Client
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome")
	addIndexes(t, ctx, env, c, "city")
	env.FaultsOf(c).Forget()
	broken := errors.New("broken off")
	waited := 0
	run := func(answer error) error {
		return fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "city", admin.BackfillOptions{Wait: func(_ context.Context, d time.Duration) error {
			if waited++; d < timing.RequestLifetime+timing.MetaMaxAge {
				t.Errorf("a drain of %v", d)
			}
			if n := fixture.Tally(env, c); len(n) != 0 {
				t.Errorf("before the drain was over: %v", n)
			}
			return answer
		}}))
	}
	fixture.WantErr(t, run(broken), broken)
	fixture.WantErr(t, run(broken), broken) // it had not finished its wait
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "people" {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	if err := run(nil); err == nil || waited != 3 {
		t.Fatalf("%v after %d waits", err, waited)
	}
	c = env.NewClient()
	fixture.Must(t, run(nil))
	if waited != 3 {
		t.Errorf("waited %d times", waited)
	}
	fixture.WantIndex(t, ctx, c, "city")
}

// A client that cannot learn of the index goes on writing as long as it may, and the backfill
// outwaits it.
func TestBackfillOutwaitsClientsThatDoNotKnowTheIndex(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackfillOutwaitsClientsThatDoNotKnowTheIndex)
}

func testBackfillOutwaitsClientsThatDoNotKnowTheIndex(t *testing.T) {
	env := percolatortest.New(t, peopleSchema(percolator.Timing{RequestLifetime: 3 * time.Second, MetaMaxAge: 3 * time.Second}),
		percolatortest.Emulator(emulator.OnDisks(&emulator.Disks{Latency: 5 * time.Millisecond}))) // or writes take no time
	ctx, c := fixture.Context(t), env.Client
	ignorant := env.NewClient()
	env.FaultsOf(ignorant).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "percolator_meta" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	var wg sync.WaitGroup
	wg.Add(1)
	var wrote atomic.Int64
	go func() {
		defer wg.Done()
		for i := 0; ; i++ {
			err := fixture.Update(ctx, ignorant, func(tx *percolator.Txn) error { return fixture.City.Set(tx, fixture.Key(i%50), fmt.Sprint("city", i)) })
			if err != nil {
				fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
				return
			}
			wrote.Add(1)
		}
	}()
	fixture.Eventually(t, "the client writes", func() bool { return wrote.Load() > 0 })
	addIndexes(t, ctx, env, c, "city")
	before := wrote.Load()
	_, err := admin.New(c).BackfillIndex(ctx, "people", "city", admin.BackfillOptions{})
	fixture.Must(t, err)
	report := fixture.WantIndex(t, ctx, c, "city")
	wg.Wait()
	t.Logf("%d writes without the index after it was added", wrote.Load()-before)
	if again := fixture.WantIndex(t, ctx, c, "city"); again.Cells != report.Cells || report.Cells != min(wrote.Load(), 50) {
		t.Errorf("%d writes without the index, %d cells at the end of the backfill and %d later", wrote.Load(), report.Cells, again.Cells)
	}
	if len(ignorant.Schema().Tables[0].Indexes) != 0 {
		t.Error("the client has learned of the index")
	}
}

// Until the schema is in force everywhere, clients with and without the index write the same cells.
func TestBackfillAfterMixedWriters(t *testing.T) {
	t.Parallel()
	for name, mix := range map[string]func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) (after func()){
		"rows without entries": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			fixture.SetPeople(t, ctx, ignorant, fixture.City, "new", "Rome", "ann", "Oslo")
			return nil
		},
		"an entry whose cell was changed": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			fixture.SetPeople(t, ctx, knows, fixture.City, "ann", "Paris", "new", "Paris")
			fixture.SetPeople(t, ctx, knows, fixture.Mail, "ann", "p@x", "new", "q@x")
			fixture.SetPeople(t, ctx, ignorant, fixture.City, "ann", "Oslo", "new", "Rome")
			fixture.SetPeople(t, ctx, ignorant, fixture.Mail, "ann", "q@x", "new", "p@x")
			return nil
		},
		"an entry whose cell was deleted, and its value taken": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			fixture.SetPeople(t, ctx, knows, fixture.City, "ann", "Paris")
			fixture.SetPeople(t, ctx, knows, fixture.Mail, "ann", "p@x")
			fixture.Must(t, fixture.Update(ctx, ignorant, func(tx *percolator.Txn) error {
				return errors.Join(fixture.City.Delete(tx, "ann"), fixture.Mail.Delete(tx, "ann"))
			}))
			fixture.SetPeople(t, ctx, knows, fixture.Mail, "new", "p@x") // a true entry in the place of a false one
			return nil
		},
		"an entry that is true again": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			fixture.SetPeople(t, ctx, knows, fixture.Mail, "ann", "p@x")
			fixture.SetPeople(t, ctx, ignorant, fixture.Mail, "ann", "q@x")
			fixture.SetPeople(t, ctx, ignorant, fixture.Mail, "ann", "p@x")
			return nil
		},
		"a commit under way, delivered in the drain": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			release, _ := holdCommit(t, ctx, env, ignorant)
			release()
			return nil
		},
		"a commit under way, delivered when all is over": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			release, outcome := holdCommit(t, ctx, env, ignorant)
			env.Clock.Advance(fixture.LockTTL)
			return func() {
				release()
				fixture.WantErr(t, outcome(), percolator.ErrConflict)
			}
		},
		"a commit of which only the primary is done": func(t *testing.T, ctx context.Context, env *percolatortest.Env, knows, ignorant *percolator.Client) func() {
			late := percolatortest.NewHold()
			env.FaultsOf(ignorant).Handle(func(r percolatortest.Request) percolatortest.Action {
				if r.Table == "people" && r.Method == percolatortest.MutateRows {
					return late
				}
				return percolatortest.Pass
			})
			fixture.Must(t, fixture.Update(ctx, ignorant, func(tx *percolator.Txn) error {
				return errors.Join(fixture.City.Set(tx, "ann", "Oslo"), fixture.City.Set(tx, "new", "Oslo"))
			}))
			late.Wait(t, 1)
			return late.Release
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
			ctx, c, ignorant := fixture.Context(t), env.Client, env.NewClient()
			fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome", "bob", "Bern")
			addIndexes(t, ctx, env, c, "city", "mail")
			after := mix(t, ctx, env, c, ignorant)
			for _, index := range []string{"city", "mail"} {
				fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", index, atOnce)))
			}
			if after != nil {
				after()
			}
			fixture.WantIndex(t, ctx, c, "city")
			fixture.WantIndex(t, ctx, c, "mail")
			if len(ignorant.Schema().Tables[0].Indexes) != 0 {
				t.Error("the client knows the index: the test shows nothing")
			}
		})
	}
}

// holdCommit has c write a city and keeps the commit request back.
func holdCommit(t *testing.T, ctx context.Context, env *percolatortest.Env, c *percolator.Client) (release func(), outcome func() error) {
	hold := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(1, fixture.IsCommit, hold))
	result := make(chan error, 1)
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, errors.Join(fixture.City.Set(tx, "ann", "Oslo"), fixture.City.Set(tx, "new", "Oslo")))
	go func() { result <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1)
	return hold.Release, func() error { return <-result }
}
