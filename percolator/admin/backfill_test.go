package admin_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// peopleSchema has the table people with the named indexes of those that testSchema declares.
func peopleSchema(timing percolator.Timing, indexes ...string) *percolator.Schema {
	people := percolator.Table{Name: "people"}
	for _, name := range indexes {
		people.Indexes = append(people.Indexes, percolator.Index{Name: name, Column: name, Unique: name == "mail"})
	}
	return &percolator.Schema{Tables: []percolator.Table{people, {Name: "t"}}, Timing: timing}
}

// learnSchema stores a schema and has c, and no other client, learn of it.
func learnSchema(t testing.TB, ctx context.Context, env *percolatortest.Env, c *percolator.Client, s *percolator.Schema) {
	t.Helper()
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "no such index", admin.VerifyIndexOptions{})), percolator.ErrSchemaMismatch)
}

// addIndexes declares indexes on people and has c learn of them.
func addIndexes(t testing.TB, ctx context.Context, env *percolatortest.Env, c *percolator.Client, indexes ...string) {
	t.Helper()
	learnSchema(t, ctx, env, c, peopleSchema(c.Schema().Timing, indexes...))
	if len(c.Schema().Tables[0].Indexes) != len(indexes) {
		t.Fatalf("the client knows %v", c.Schema().Tables)
	}
}

// atOnce takes the drain for over: for tests in which nobody is left who does not know the index.
var atOnce = admin.BackfillOptions{Wait: func(context.Context, time.Duration) error { return nil }}

func TestIndexIsReadOnceItIsBackfilled(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	other := env.NewClient()
	before := fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome", "bob", "Bern", "cid", "Rome", "eve", "")
	fixture.SetPeople(t, ctx, c, fixture.Name, "fay", "no city")
	addIndexes(t, ctx, env, c, "city")

	// While it is being built writers maintain it, and nobody reads it.
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(fixture.City.Set(tx, "bob", "Oslo"), fixture.City.Set(tx, "dan", "Bern"), fixture.City.Delete(tx, "cid"))
	}))
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	err = fixture.FirstError(s.ScanIndex(ctx, "people", "city", percolator.All()))
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	if err == nil || !strings.Contains(err.Error(), "BackfillIndex") {
		t.Errorf("%v does not say what to do", err)
	}
	fixture.WantErr(t, fixture.FirstError(fixture.MustBegin(t, ctx, c).ScanIndex(ctx, "people", "city", percolator.All())), percolator.ErrSchemaMismatch)
	report, err := admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{})
	fixture.Must(t, err)
	if !report.Building || report.Missing != 2 || report.Damaged() != 2 || report.Cells != 4 || report.Entries != 2 {
		t.Errorf("before: %+v", report)
	}

	var phases []admin.BackfillPhase
	opts := atOnce
	opts.Progress = func(p admin.BackfillProgress) { phases = append(phases, p.Phase) }
	done, err := admin.New(c).BackfillIndex(ctx, "people", "city", opts)
	fixture.Must(t, err)
	if done.Cells != 4 || done.Written != 2 || done.Removed != 0 || done.Resumed || done.Since == 0 {
		t.Errorf("report %+v", done)
	}
	if got := fmt.Sprint(slices.Compact(phases)); got != "[drain sweep fill ready]" {
		t.Errorf("phases %v", got)
	}
	if got := fixture.ListIndexNow(t, ctx, c, "city", percolator.All()); got != ":eve Bern:dan Oslo:bob Rome:ann" {
		t.Errorf("afterwards %q", got)
	}
	fixture.WantIndex(t, ctx, other, "city") // which has heard nothing, and asks
	if row, err := env.Store().Open("percolator_meta").ReadRow(ctx, "backfill:people.city"); err != nil || row != nil {
		t.Errorf("the position is still there: %v, %v", row, err)
	}

	// Older snapshots saw an index without these entries.
	for _, ts := range []tso.Timestamp{before, done.Since - 1} {
		old, err := c.Snapshot(ctx, percolator.AsOfTimestamp(ts))
		fixture.Must(t, err)
		fixture.WantErr(t, fixture.FirstError(old.ScanIndex(ctx, "people", "city", percolator.All())), percolator.ErrSnapshotTooOld)
		fixture.WantErr(t, fixture.ErrOf(admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{Timestamp: ts})), percolator.ErrSnapshotTooOld)
	}
	first, err := c.Snapshot(ctx, percolator.AsOfTimestamp(done.Since))
	fixture.Must(t, err)
	if got := fixture.ListIndex(t, ctx, first, "city", percolator.All()); got != ":eve Bern:dan Oslo:bob Rome:ann" {
		t.Errorf("at %d %q", done.Since, got)
	}

	// A finished index costs nothing.
	env.FaultsOf(c).Forget()
	again, err := admin.New(c).BackfillIndex(ctx, "people", "city", admin.BackfillOptions{})
	fixture.Must(t, err)
	if again.Since != done.Since || again.Phase != admin.BackfillReady {
		t.Errorf("again: %+v", again)
	}
	if n := fixture.Tally(env, c); len(n) != 0 {
		t.Errorf("requests for a finished index: %v", n)
	}
}

// shortTiming makes a drain of a few seconds: requests must be answered within their lifetime on a
// slow machine, too.
var shortTiming = percolator.Timing{RequestLifetime: 3 * time.Second, MetaMaxAge: 3 * time.Second}

// Writers insert, change and delete indexed cells all the time, with clients that learn of the
// index when they happen to.
func TestBackfillBesideWriters(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testBackfillBesideWriters)
}

func testBackfillBesideWriters(t *testing.T) {
	env := percolatortest.New(t, peopleSchema(shortTiming))
	ctx, c := fixture.Context(t), env.Client
	var pairs []string
	for i := range 200 {
		pairs = append(pairs, fixture.Key(i), fmt.Sprint("city", i%7))
	}
	fixture.SetPeople(t, ctx, c, fixture.City, pairs...)

	var stop atomic.Bool
	var writes atomic.Int64
	var wg sync.WaitGroup
	for g := range 3 {
		writer := env.NewClient()
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(7, uint64(g)))
			for i := 0; !stop.Load(); i++ {
				time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond)))) // virtual time passes for nothing else
				row := fixture.Key(rng.IntN(250))
				err := fixture.Update(ctx, writer, func(tx *percolator.Txn) error {
					if rng.IntN(4) == 0 {
						return fixture.City.Delete(tx, row)
					}
					return errors.Join(fixture.City.Set(tx, row, fmt.Sprint("city", rng.IntN(7))), fixture.Mail.Set(tx, row, fmt.Sprintf("%d.%d@x", g, i)))
				})
				if err == nil {
					writes.Add(1)
				} else if ctx.Err() != nil || errors.Is(err, percolator.ErrUnique) {
					t.Error(err)
					return
				}
			}
		}()
	}
	defer wg.Wait()
	defer stop.Store(true)
	progress := func(n int64) {
		from := writes.Load()
		fixture.Eventually(t, "the writers write", func() bool { return writes.Load() >= from+n })
	}
	progress(50)
	addIndexes(t, ctx, env, c, "city", "mail")
	var both sync.WaitGroup
	for _, index := range []string{"city", "mail"} {
		both.Add(1)
		go func() {
			defer both.Done()
			done, err := admin.New(c).BackfillIndex(ctx, "people", index, admin.BackfillOptions{RowsPerTransaction: 16, Concurrency: 3})
			if err != nil {
				t.Errorf("%s: %v", index, err)
				return
			}
			first, err := admin.New(c).VerifyIndex(ctx, "people", index, admin.VerifyIndexOptions{Timestamp: done.Since})
			if err != nil || first.Damaged() != 0 {
				t.Errorf("%s, as it was when it became ready: %+v, %v", index, first, err)
			}
		}()
	}
	both.Wait()
	for range 3 {
		progress(20)
		fixture.WantIndex(t, ctx, c, "city")
		fixture.WantIndex(t, ctx, c, "mail")
	}
}

// A writer changes a cell between the read of the backfill and its commit: one of the two runs
// again.
func TestBackfillMeetsAWriter(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c, writer := fixture.Context(t), env.Client, env.NewClient()
	fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "a@x", "bob", "b@x", "cid", "c@x", "dan", "d@x")
	addIndexes(t, ctx, env, c, "mail")
	fixture.Must(t, fixture.ErrOf(admin.New(writer).VerifyIndex(ctx, "people", "mail", admin.VerifyIndexOptions{}))) // it learns of the index
	hold := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(4, fixture.IsPrewrite, hold))
	type result struct {
		report admin.BackfillReport
		err    error
	}
	done := make(chan result)
	go func() {
		r, err := admin.New(c).BackfillIndex(ctx, "people", "mail", atOnce)
		done <- result{r, err}
	}()
	hold.Wait(t, 4)
	fixture.Must(t, fixture.Update(ctx, writer, func(tx *percolator.Txn) error {
		return errors.Join(fixture.Mail.Set(tx, "ann", "z@x"), fixture.Mail.Delete(tx, "bob"), fixture.Mail.Set(tx, "cid", "y@x"), fixture.Mail.Set(tx, "dan", "x@x"), fixture.Mail.Set(tx, "eve", "a@x"))
	}))
	hold.Release()
	r := <-done
	fixture.Must(t, r.err)
	if r.report.Conflicts == 0 {
		t.Errorf("no conflict: %+v", r.report)
	}
	fixture.WantIndex(t, ctx, c, "mail")
	if got := fixture.ListIndexNow(t, ctx, c, "mail", percolator.All()); got != "a@x:eve x@x:dan y@x:cid z@x:ann" {
		t.Errorf("the index says %q", got)
	}
}

func TestTwoBackfillsAtOnce(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx := fixture.Context(t)
	var pairs []string
	for i := range 150 {
		pairs = append(pairs, fixture.Key(i), fmt.Sprintf("m%d@x", i))
	}
	fixture.SetPeople(t, ctx, env.Client, fixture.Mail, pairs...)
	addIndexes(t, ctx, env, env.Client, "mail")
	var wg sync.WaitGroup
	for range 3 {
		c := env.NewClient()
		wg.Add(1)
		go func() {
			defer wg.Done()
			opts := atOnce
			opts.RowsPerTransaction = 10
			if _, err := admin.New(c).BackfillIndex(ctx, "people", "mail", opts); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if report := fixture.WantIndex(t, ctx, env.Client, "mail"); report.Cells != 150 {
		t.Errorf("%+v", report)
	}
}
