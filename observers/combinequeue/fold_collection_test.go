package combinequeue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestCollectionBesideFolding: what was folded is collected while contributions are added and
// folded. None is lost and none counts twice, and in the end nothing is left of the queue.
func TestCollectionBesideFolding(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCollectionBesideFolding)
}

func testCollectionBesideFolding(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	q, err := combinequeue.New(config())
	if err != nil {
		t.Fatal(err)
	}
	pt := percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{q.Table(), {Name: "totals"}},
		Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}, // a drain can be waited for
	})
	e := &env{t, pt, ctx, pt.Client, q, percolator.Int64("totals", "total")}
	w, _ := e.fold(e.NewClient())
	second, _ := e.fold(e.NewClient())
	g, err := admin.New(e.NewClient()).NewCollector(admin.CollectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	added := int64(0)
	for range 3 {
		e.Clock.Advance(2 * time.Hour) // everything until now is old
		collected := make(chan error, 1)
		go func() { _, err := g.Collect(ctx); collected <- err }()
		var writers sync.WaitGroup
		for range 4 {
			c := e.NewClient()
			added += 40
			writers.Go(func() {
				for range 40 {
					e.add(c, "popular")
				}
			})
		}
		writers.Wait()
		if total, pending := e.read("popular"); total+pending != added {
			t.Errorf("%d folded and %d pending, %d were added", total, pending, added)
		}
		if err := <-collected; err != nil {
			t.Fatal(err)
		}
	}
	e.idle(w)
	e.idle(second)
	if total, pending := e.read("popular"); total != added || pending != 0 {
		t.Errorf("%d folded and %d pending, %d were added", total, pending, added)
	}
	e.Clock.Advance(2 * time.Hour)
	if _, err := g.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := e.Store().Open("queue").ReadRows(ctx, bigtable.InfiniteRange(""), func(bigtable.Row) bool { left++; return true }); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("%d rows of the queue are left", left)
	}
}
