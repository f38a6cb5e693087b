package loader_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
)

// A load that lives through a repair ends: what it had loaded above the timestamp is gone, and so
// is its position. The next load begins anew, so that no row is missing.
func TestLoadThatLivesThroughARepairLosesNothing(t *testing.T) {
	inBubble(t, testLoadThatLivesThroughARepairLosesNothing)
}

func testLoadThatLivesThroughARepairLosesNothing(t *testing.T) {
	const n, repaired = 60, 40
	e := bulkEnv(t)
	a := admin.New(e.NewClient())
	to := e.completeNow(a)
	cfg := loader.Config{Name: "load", Concurrency: 1, ItemsPerTransaction: 4, CheckpointInterval: 1}
	job := loader.Job[string]{Write: loader.Each(set), Source: func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[string], error] {
		return func(yield func(loader.Item[string], error) bool) {
			read := 0
			for item, err := range source("o-", n)(ctx, from) {
				if read++; read == repaired {
					_, err := a.Repair(e.ctx, model.RepairOptions{To: to})
					fixture.Must(t, err)
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}}
	if _, err := loader.Load(e.ctx, e.Client, cfg, job); !errors.Is(err, percolator.ErrConflict) || errors.Is(err, percolator.ErrCorrupt) {
		t.Errorf("the load that lived through the repair: %v", err)
	}
	job.Source = source("o-", n)
	r, err := loader.Load(e.ctx, e.Client, cfg, job)
	fixture.Must(t, err)
	if stored := e.stored("o-"); stored != n {
		t.Errorf("%d rows of %d: %+v", stored, n, r)
	}
}
