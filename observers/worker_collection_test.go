package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Workers remove old versions as they go, one of them at a time, except those configured not to.
func TestWorkersCollect(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		e := &env{t, percolatortest.New(t, &percolator.Schema{
			Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}},
			Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second},
		}, fixture.ShortRetention), ctx, nil, byJournal}
		e.client = e.Client
		versions := func() (n int) {
			err := e.Store().Open("t").ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
				n += len(r["data"])
				return true
			}, bigtable.RowFilter(bigtable.FamilyFilter("data")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		r := observers.NewRegistry()
		r.Observe("nothing", "t", "c", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
		idle, _ := e.start(e.NewClient(fixture.ShortRetention), r, observers.Config{DisableCollection: true, Collector: admin.CollectorConfig{Interval: time.Second}})
		for range 10 {
			e.set(e.client, "r", "c", "v")
		}
		e.idle(idle)
		e.Clock.Advance(2 * time.Minute)
		if state, err := admin.New(e.client).Collection(ctx); err != nil || state.Phase != "" || versions() != 10 {
			t.Errorf("a worker that must not collect did: %+v, %v", state, err)
		}
		for range 3 {
			e.start(e.NewClient(fixture.ShortRetention), r, observers.Config{Collector: admin.CollectorConfig{Interval: time.Second}})
		}
		for versions() != 1 {
			if ctx.Err() != nil {
				t.Fatalf("still %d versions", versions())
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := e.get("r", "c"); got != "v" {
			t.Errorf("read %q", got)
		}
		_, err := observers.NewWorker(e.client, r, observers.Config{Collector: admin.CollectorConfig{Interval: time.Millisecond}})
		if !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("an interval of 1 ms: %v", err)
		}
	})
}
