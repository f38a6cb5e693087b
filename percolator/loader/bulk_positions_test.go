package loader_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
)

// brokenOff fills table t, runs something that is broken off in its middle, and empties t again.
func (e *env) brokenOff(n int, run func(ctx context.Context, at func(done int64)) error, more ...string) {
	e.Helper()
	for i := range n {
		_, err := e.Client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
			for _, c := range rowOf(name("r", i)).Cells {
				if err := tx.Set(percolator.Cell{Table: "t", Row: name("r", i), Column: c.Column}, c.Value); err != nil {
					return err
				}
			}
			return nil
		})
		fixture.Must(e, err)
	}
	fixture.Must(e, e.Client.Flush(e.ctx))
	broken, stop := context.WithCancel(e.ctx)
	fixture.WantErr(e, run(broken, func(done int64) {
		if done >= int64(n/2) {
			stop()
		}
	}), context.Canceled)
	e.wipe(append(more, "t", "t.name", "t.kind")...)
}

// An import leaves an index that is being built to its backfill, which then begins at the
// beginning, also if it was broken off in what the table held before.
func TestBulkBehindABackfillThatWasBrokenOff(t *testing.T) {
	inBubble(t, testBulkBehindABackfillThatWasBrokenOff)
}

func testBulkBehindABackfillThatWasBrokenOff(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	e.brokenOff(n, func(ctx context.Context, at func(int64)) error {
		e.addLate()
		_, err := admin.New(e.Client).BackfillIndex(ctx, "t", "late", admin.BackfillOptions{
			Concurrency: 1, RowsPerTransaction: 1, SaveEvery: 1, Progress: func(p admin.BackfillProgress) { at(p.Cells) },
		})
		return err
	}, "t.late")
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
	fixture.Must(t, err)
	fixture.Must(t, fixture.ErrOf(admin.New(e.Client).BackfillIndex(e.ctx, "t", "late", admin.BackfillOptions{})))
	e.wantLate(e.Client, n)
}

// After a quiet import a backfill of an observer notifies all rows, also if one was broken off in
// what the table held before.
func TestQuietBulkBehindAnObserversBackfillThatWasBrokenOff(t *testing.T) {
	inBubble(t, testQuietBulkBehindAnObserversBackfillThatWasBrokenOff)
}

func testQuietBulkBehindAnObserversBackfillThatWasBrokenOff(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	e.brokenOff(n, func(ctx context.Context, at func(int64)) error {
		_, err := admin.New(e.Client).BackfillObserver(ctx, "t", "c", "o", admin.ObserverOptions{RowsPerPage: 1, Progress: func(p admin.ObserverProgress) { at(p.Rows) }})
		return err
	})
	cfg := bulkConfig()
	cfg.Quiet = true
	_, err := loader.Bulk(e.ctx, e.Client, cfg, rows(n))
	fixture.Must(t, err)
	time.Sleep(time.Minute)
	p, err := admin.New(e.Client).BackfillObserver(e.ctx, "t", "c", "o", admin.ObserverOptions{})
	fixture.Must(t, err)
	if have := fixture.CellsOf(t, e.ctx, e.Env, "t", "notify"); have != n {
		t.Errorf("%d of %d cells are notified: %+v", have, n, p)
	}
}
