package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// halfBackfilled returns an instance with 20 cells, of which a backfill has 10 in the index city.
func halfBackfilled(t *testing.T, ctx context.Context) *percolatortest.Env {
	t.Helper()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	c := env.Client
	for i := range 20 {
		fixture.SetPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
	}
	addIndexes(t, ctx, env, c, "city")
	broken, stop := context.WithCancel(ctx)
	_, err := admin.New(c).BackfillIndex(broken, "people", "city", stepwise(func(p admin.BackfillProgress) {
		if p.Cells >= 10 {
			stop()
		}
	}))
	fixture.WantErr(t, err, context.Canceled)
	return env
}

// stepwise is a backfill that goes from row to row, and saves each position.
func stepwise(progress func(admin.BackfillProgress)) admin.BackfillOptions {
	opts := atOnce
	opts.Concurrency, opts.RowsPerTransaction, opts.SaveEvery, opts.Progress = 1, 1, 1, progress
	return opts
}

// dropCity drops the index, and applies a schema when its name has rested.
func dropCity(t testing.TB, ctx context.Context, env *percolatortest.Env, next *percolator.Schema) {
	t.Helper()
	c := env.NewClient(fixture.ShortRetention)
	_, err := admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), noWait(env))
	fixture.Must(t, err)
	env.Clock.Advance(fixture.PastRetention)
	whenAnnounced(t, ctx, c, func() { learnSchema(t, ctx, env, env.Client, next) })
}

// The backfill of an index is broken off, the index is dropped, and added again. Its backfill
// begins at the beginning.
func TestBackfillOfAnIndexThatWasDroppedAndAddedAgain(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := halfBackfilled(t, ctx)
	dropCity(t, ctx, env, peopleSchema(env.Client.Schema().Timing, "city"))
	report, err := admin.New(env.Client).BackfillIndex(ctx, "people", "city", atOnce)
	fixture.Must(t, err)
	if report.Resumed || report.Cells != 20 {
		t.Errorf("%+v", report)
	}
	fixture.WantIndex(t, ctx, env.Client, "city")
}

// A backfill lives through the drop of its index, which is added again: it does not say that the
// index is ready, and the position that it leaves behind is nobody's.
func TestBackfillBesideADropOfItsIndex(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := halfBackfilled(t, ctx)
	other := env.NewClient() // which learns of nothing by itself
	dropped := false
	_, err := admin.New(other).BackfillIndex(ctx, "people", "city", stepwise(func(p admin.BackfillProgress) {
		if p.Cells >= 15 && !dropped {
			dropped = true
			dropCity(t, ctx, env, peopleSchema(env.Client.Schema().Timing, "city"))
		}
	}))
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	if !dropped {
		t.Fatal("the backfill was not under way")
	}
	report, err := admin.New(env.Client).BackfillIndex(ctx, "people", "city", atOnce)
	fixture.Must(t, err)
	if report.Resumed {
		t.Errorf("%+v", report)
	}
	fixture.WantIndex(t, ctx, env.Client, "city")
}

// The Bigtable table of an index is lost while the index is building. What was in it has to be
// written again.
func TestBackfillOfAnIndexWhoseTableWasLost(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		env := halfBackfilled(t, ctx)
		a, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
		fixture.Must(t, err)
		defer func() { _ = a.Close() }()
		fixture.Must(t, a.DeleteTable(ctx, "people.city"))
		addIndexes(t, ctx, env, env.Client, "city")
		fixture.Must(t, fixture.ErrOf(admin.New(env.Client).BackfillIndex(ctx, "people", "city", atOnce)))
		fixture.WantIndex(t, ctx, env.Client, "city")
	})
}

func onlyPeople(s *percolator.Schema) {
	s.Tables = []percolator.Table{{Name: "people", Observed: []string{"city"}}}
}

// The backfill of an observer is broken off, the column is observed no more, its notifications are
// collected, and it is observed again. The backfill then notifies all cells.
func TestBackfillObserverOfAColumnThatIsObservedAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const n = 20
		env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) {
			onlyPeople(s)
			s.Tables[0].Observed = nil
		})
		ctx, c := context.Background(), env.Client
		for i := range n {
			fixture.SetPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
		}
		observed := &percolator.Schema{Timing: c.Schema().Timing}
		onlyPeople(observed)
		plain := &percolator.Schema{Timing: c.Schema().Timing, Tables: []percolator.Table{{Name: "people"}}}
		learnSchema(t, ctx, env, c, observed)
		broken, stop := context.WithCancel(ctx)
		opts := admin.ObserverOptions{RowsPerPage: 1, Progress: func(p admin.ObserverProgress) {
			if p.Rows >= n/2 {
				stop()
			}
		}}
		fixture.WantErr(t, fixture.ErrOf(admin.New(c).BackfillObserver(broken, "people", "city", "o", opts)), context.Canceled)
		_, err := admin.New(c).DropFromSchema(ctx, plain, noWait(env))
		fixture.Must(t, err)
		for range 3 {
			time.Sleep(fixture.PastRetention)
			fixture.Collect(t, ctx, c)
		}
		if left := fixture.CellsOf(t, ctx, env, "people", "notify"); left > 0 {
			t.Fatalf("%d notifications are left", left)
		}
		learnSchema(t, ctx, env, c, observed)
		p, err := admin.New(c).BackfillObserver(ctx, "people", "city", "o", admin.ObserverOptions{})
		fixture.Must(t, err)
		if have := fixture.CellsOf(t, ctx, env, "people", "notify"); have != n {
			t.Errorf("%d of %d cells are notified: %+v", have, n, p)
		}
	})
}

// A deletion is broken off, its table dropped, and created again. A deletion in the new table
// deletes what is there.
func TestDeleteRangeInATableThatWasDroppedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const n = 20
		people := func(s *percolator.Schema) { s.Tables = []percolator.Table{{Name: "people"}, {Name: "t"}} }
		env := fixture.NewCollectorEnv(t, people)
		ctx, c := context.Background(), env.Client
		fill := func() {
			for i := range n {
				fixture.SetPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
			}
		}
		fill()
		broken, stop := context.WithCancel(ctx)
		opts := admin.DeleteOptions{Concurrency: 1, RowsPerTransaction: 1, SaveEvery: 1, Progress: func(p admin.DeleteProgress) {
			if p.Deleted >= n/2 {
				stop()
			}
		}}
		fixture.WantErr(t, fixture.ErrOf(admin.New(c).DeleteRange(broken, "people", percolator.All(), opts)), context.Canceled)
		both := &percolator.Schema{Timing: c.Schema().Timing}
		people(both)
		_, err := admin.New(c).DropFromSchema(ctx, &percolator.Schema{Timing: c.Schema().Timing, Tables: both.Tables[1:]}, noWait(env))
		fixture.Must(t, err)
		for range 3 {
			time.Sleep(fixture.PastRetention)
			fixture.Collect(t, ctx, c)
		}
		learnSchema(t, ctx, env, c, both)
		fill()
		p, err := admin.New(c).DeleteRange(ctx, "people", percolator.All(), admin.DeleteOptions{})
		fixture.Must(t, err)
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		left := 0
		for _, err := range s.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			left++
		}
		if left > 0 {
			t.Errorf("%d cells are left that had committed before the call: %+v", left, p)
		}
	})
}

// A backfill of an observer lives through a time in which its column is not observed. It does not
// say that all cells are notified.
func TestBackfillObserverBesideADropOfItsColumn(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	for i := range 20 {
		fixture.SetPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
	}
	observed, plain := &percolator.Schema{Timing: c.Schema().Timing}, peopleSchema(c.Schema().Timing)
	observed.Tables = append(observed.Tables, percolator.Table{Name: "people", Observed: []string{"city"}}, percolator.Table{Name: "t"})
	learnSchema(t, ctx, env, c, observed)
	other, dropped := env.NewClient(), false
	_, err := admin.New(other).BackfillObserver(ctx, "people", "city", "o", admin.ObserverOptions{RowsPerPage: 1, Progress: func(p admin.ObserverProgress) {
		if p.Rows == 10 && !dropped {
			dropped = true
			fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, plain, noWait(env))))
			learnSchema(t, ctx, env, c, observed)
		}
	}})
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	p, err := admin.New(c).BackfillObserver(ctx, "people", "city", "o", admin.ObserverOptions{})
	fixture.Must(t, err)
	if p.Resumed || p.Rows != 20 {
		t.Errorf("%+v", p)
	}
}
