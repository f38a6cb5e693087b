package loader_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// importedTables are all that a bulk import writes.
var importedTables = []string{"t", "t.name", "t.kind"}

// completeNow is a timestamp to repair to, with a hold.
func (e *env) completeNow(a *admin.Admin) tso.Timestamp {
	e.Helper()
	_, err := a.TakeHold(e.ctx, 1, 24*time.Hour, "")
	fixture.Must(e, err)
	to, err := e.Oracle.Next(e.ctx)
	fixture.Must(e, err)
	return to
}

// A process that aborts an import may live through a repair: what it has erased before is back with
// the copies. It must not open the table (I28).
func TestAbortThatLivesThroughARepair(t *testing.T) { inBubble(t, testAbortThatLivesThroughARepair) }

func testAbortThatLivesThroughARepair(t *testing.T) {
	const n = 100
	e := bulkEnv(t)
	a := admin.New(e.Client)
	breaks := errors.New("the process ends")
	var to tso.Timestamp
	cfg := bulkConfig()
	cfg.RowsPerRequest = 10
	_, err := loader.Bulk(e.ctx, e.Client, cfg, func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(n)(ctx, from) {
				if !yield(item, err) {
					return
				}
			}
			to = e.completeNow(a)
			yield(loader.Item[loader.Row]{}, breaks)
		}
	})
	fixture.WantErr(t, err, breaks)
	held := e.copyOf(importedTables...)
	if len(held["t"]) == 0 {
		t.Fatal("nothing was written")
	}
	gone, repaired := int64(0), false
	aborted, err := loader.AbortImport(e.ctx, e.NewClient(), "t", nil, func(rows int64) {
		gone = rows
		if left := e.copyOf(importedTables...); repaired || len(left) > 0 {
			return
		}
		repaired = true // nothing is left: now a replica takes over
		e.putBack(held, importedTables...)
		_, err := a.Repair(e.ctx, model.RepairOptions{To: to})
		fixture.Must(t, err)
	})
	fixture.Must(t, err)
	if !aborted || gone == 0 {
		t.Errorf("%d rows of three tables went: %v", gone, aborted)
	}
	if left := e.copyOf(importedTables...); len(left) > 0 {
		e.wantFenced(e.NewClient())
		t.Errorf("%d rows are left", len(left["t"])+len(left["t.name"])+len(left["t.kind"]))
	}
}

// A process that imports may live through a repair too: what it has verified before may be gone
// with the rows' last writes. It must not open the table (I28).
func TestImportThatLivesThroughARepair(t *testing.T) { inBubble(t, testImportThatLivesThroughARepair) }

func testImportThatLivesThroughARepair(t *testing.T) {
	const n = 10
	e := bulkEnv(t)
	a := admin.New(e.Client)
	im, err := transfer.BeginImport(e.ctx, e.NewClient().Engine(), "t", "a test", false, nil, nil)
	fixture.Must(t, err)
	var source []loader.Row
	for i := range n {
		source = append(source, rowOf(name("r", i)))
	}
	fixture.Must(t, im.WriteRows(e.ctx, source[:n/2]))
	to := e.completeNow(a)
	held := e.copyOf(importedTables...)
	fixture.Must(t, im.WriteRows(e.ctx, source[n/2:]))
	_, err = im.Verify(e.ctx, im.Sums(source...), nil)
	fixture.Must(t, err)
	// The replica that takes over lacks the last writes.
	e.putBack(held, importedTables...)
	_, err = a.Repair(e.ctx, model.RepairOptions{To: to})
	fixture.Must(t, err)
	if _, err := im.Lift(e.ctx); !errors.Is(err, percolator.ErrConflict) {
		t.Errorf("it opens the table: %v", err)
	}
	e.wantFenced(e.Client)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
	fixture.Must(t, err)
	e.wantRows(e.Client, n)
}

// stoppedOracle calls after before it hands out its nth timestamp, from when it is armed.
type stoppedOracle struct {
	tso.Oracle
	nth   int
	after func()
}

func (o *stoppedOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	ts, err := o.Oracle.Next(ctx)
	if o.nth--; o.nth == 0 {
		o.after()
	}
	return ts, err
}

// A process that is stopped right after it has taken the timestamps of an import, and goes on a
// drain later, must not write with them: copies that began meanwhile can be repaired to a timestamp
// above them, and the copy of the fence may not have them (I28).
func TestImportThatIsStoppedAfterItsTimestamps(t *testing.T) {
	inBubble(t, testImportThatIsStoppedAfterItsTimestamps)
}

func testImportThatIsStoppedAfterItsTimestamps(t *testing.T) {
	const n = 10
	e := bulkEnv(t)
	a := admin.New(e.Client)
	oracle := &stoppedOracle{Oracle: e.Oracle}
	slow := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = oracle }))
	var to tso.Timestamp
	var held map[string][]bigtable.Row
	oracle.after = func() {
		to = e.completeNow(a)
		time.Sleep(10 * time.Minute) // in the bubble; more than a drain
		held = e.copyOf("percolator_meta")
	}
	im, err := transfer.BeginImport(e.ctx, slow.Engine(), "t", "a test", false, func(time.Duration) { oracle.nth = 2 }, nil)
	if err == nil {
		var some []loader.Row
		for i := range n {
			some = append(some, rowOf(name("r", i)))
		}
		fixture.Must(t, im.WriteRows(e.ctx, some))
		t.Logf("the import has commit timestamp %d, the repair goes to %d", im.CommitTimestamp(), to)
	}
	for table, rows := range e.copyOf(importedTables...) {
		held[table] = rows
	}
	e.putBack(held, append(importedTables, "percolator_meta")...)
	_, err = a.Repair(e.ctx, model.RepairOptions{To: to})
	fixture.Must(t, err)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(2*n))
	if err != nil {
		t.Errorf("the import does not go on: %v", err)
	}
	e.wantRows(e.NewClient(), 2*n)
}

// A process that is held up between the two timestamps of an import for longer than a request may
// live looks at the fence again, and goes on.
func TestImportThatIsStoppedBetweenItsTimestamps(t *testing.T) {
	inBubble(t, testImportThatIsStoppedBetweenItsTimestamps)
}

func testImportThatIsStoppedBetweenItsTimestamps(t *testing.T) {
	const n = 10
	e := bulkEnv(t)
	oracle := &stoppedOracle{Oracle: e.Oracle, after: func() {
		time.Sleep(10 * time.Minute) // in the bubble; more than a lifetime
	}}
	slow := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = oracle }))
	im, err := transfer.BeginImport(e.ctx, slow.Engine(), "t", "a test", false, func(time.Duration) { oracle.nth++ }, nil)
	fixture.Must(t, err)
	var some []loader.Row
	for i := range n {
		some = append(some, rowOf(name("r", i)))
	}
	fixture.Must(t, im.WriteRows(e.ctx, some))
	_, err = im.Lift(e.ctx)
	fixture.Must(t, err)
	e.wantRows(e.NewClient(), n)
}

// A repair removes the position of an import that lives through it. That is no damage: the import
// ends, and the next one begins at the beginning.
func TestRepairRemovesThePositionOfAnImport(t *testing.T) {
	inBubble(t, testRepairRemovesThePositionOfAnImport)
}

func testRepairRemovesThePositionOfAnImport(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	a := admin.New(e.NewClient())
	cfg := bulkConfig()
	cfg.RowsPerRequest = n / 2 // so nothing is left to be written when the source ends
	_, err := loader.Bulk(e.ctx, e.Client, cfg, func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(n)(ctx, from) {
				if !yield(item, err) {
					return
				}
			}
			_, err := a.Repair(e.ctx, model.RepairOptions{To: e.completeNow(a)})
			fixture.Must(t, err)
		}
	})
	if !errors.Is(err, percolator.ErrConflict) || errors.Is(err, percolator.ErrCorrupt) {
		t.Errorf("the import that lived through the repair: %v", err)
	}
	next, err := loader.Bulk(e.ctx, e.Client, cfg, rows(n))
	fixture.Must(t, err)
	if next.Resumed || next.Items != n {
		t.Errorf("%+v", next)
	}
	e.wantRows(e.NewClient(), n)
}
