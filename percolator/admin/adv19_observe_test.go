package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func onlyPeople(s *percolator.Schema) {
	s.Tables = []percolator.Table{{Name: "people", Observed: []string{"city"}}}
}

// The backfill of an observer is broken off, the column is observed no more, its notifications are
// collected, and it is observed again. The backfill then notifies all cells.
func TestBackfillObserverOfAColumnThatIsObservedAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const n = 20
		env := newCollectorEnv(t, func(s *percolator.Schema) {
			onlyPeople(s)
			s.Tables[0].Observed = nil
		})
		ctx, c := context.Background(), env.Client
		for i := range n {
			setPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
		}
		observed := &percolator.Schema{Timing: c.Schema().Timing}
		onlyPeople(observed)
		plain := &percolator.Schema{Timing: c.Schema().Timing, Tables: []percolator.Table{{Name: "people"}}}
		apply(t, ctx, env, c, observed)
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
			time.Sleep(afterwards)
			collect(t, ctx, c)
		}
		if left := fixture.CellsOf(t, ctx, env, "people", "notify"); left > 0 {
			t.Fatalf("%d notifications are left", left)
		}
		apply(t, ctx, env, c, observed)
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
		env := newCollectorEnv(t, people)
		ctx, c := context.Background(), env.Client
		fill := func() {
			for i := range n {
				setPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
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
			time.Sleep(afterwards)
			collect(t, ctx, c)
		}
		apply(t, ctx, env, c, both)
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
