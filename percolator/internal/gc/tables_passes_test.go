package gc_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestSparseCollection: the collector comes through a table without locks, and saves how far it has
// come although it finds none.
func TestSparseCollection(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSparseCollection)
}

func testSparseCollection(t *testing.T) {
	const sparseRows = 60 // that a request passes over
	ctx, s := fixture.Context(t), fixture.Schema()
	s.Tables = s.Tables[:1] // progress names the first table that is not done: this one
	s.DisableJournal = true
	s.Timing = percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}
	env := percolatortest.New(t, s, fixture.CutReads(sparseRows), fixture.ShortRetention)
	fixture.Fill(t, ctx, env, "t", 10*sparseRows)
	fixture.Fill(t, ctx, env, "t", sparseRows) // garbage
	last := fixture.Key(10*sparseRows - 1)
	fixture.CrashAfter(t, env, nil, last)
	env.Clock.Advance(fixture.PastRetention + fixture.LockTTL)
	progress := ""
	col, err := fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionResolve && col.Table == "t" && col.Locks == 0 {
			progress = max(progress, col.Row)
		}
	}}).Collect(ctx)
	if err != nil || col.Locks != 1 || col.Rows < 10*sparseRows || col.Versions < sparseRows {
		t.Errorf("%+v, %v", col, err)
	}
	if progress < fixture.Key(sparseRows) {
		t.Errorf("it came to %q before it found a lock", progress)
	}
}

// TestCollectionOfASmallTableBesideALargeOne: while the collector waits for one table, it erases
// what is garbage in the others.
func TestCollectionOfASmallTableBesideALargeOne(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionOfASmallTableBesideALargeOne)
}

func testCollectionOfASmallTableBesideALargeOne(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses)
	ctx := fixture.Context(t)
	for i := range 3 {
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			fixture.Must(t, tx.Set(fixture.Cell("r", "c"), fmt.Append(nil, i)))
			return tx.Set(percolator.Cell{Table: "u", Row: "r", Column: "c"}, fmt.Append(nil, i))
		}))
		fixture.Must(t, env.Client.Flush(ctx))
	}
	env.Clock.Advance(fixture.PastRetention)
	var mu sync.Mutex
	phase := model.CollectionPhase("")
	c, held := env.NewClient(fixture.ShortRetention), percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		return phase == model.CollectionErase && r.Method == percolatortest.ReadRows && r.Table == "t"
	}, held.Answer()))
	done := make(chan error, 1)
	go func() {
		_, err := fixture.NewCollector(t, c, model.CollectorConfig{Progress: func(col model.Collection) {
			mu.Lock()
			defer mu.Unlock()
			phase = col.Phase
		}}).Collect(ctx)
		done <- err
	}()
	held.Wait(t, 1)
	fixture.Eventually(t, "erased what is garbage in u", func() bool { return fixture.CellsOf(t, ctx, env, "u", "write") == 1 })
	held.Release()
	fixture.Must(t, <-done)
	fixture.WantCells(t, ctx, env, "in the end", 1, 0, 1, 0)
}

// TestCollectionBesideATableThatFails: a table that cannot be read keeps no garbage in the others,
// and ends the cycle with its error.
func TestCollectionBesideATableThatFails(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionBesideATableThatFails)
}

func testCollectionBesideATableThatFails(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses)
	ctx := fixture.Context(t)
	const rows = 1200 // several pages
	for range 2 {
		fixture.Fill(t, ctx, env, "u", rows)
	}
	env.Clock.Advance(fixture.PastRetention)
	tables, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	defer func() { _ = tables.Close() }()
	_, err = fixture.NewCollector(t, env.Client, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase && col.Page == "" {
			fixture.Must(t, tables.DeleteTable(ctx, "t"))
		}
	}}).Collect(ctx)
	if !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Errorf("the cycle ended with %v", err)
	}
	if left := fixture.CellsOf(t, ctx, env, "u", "write"); left != rows {
		t.Errorf("%d records are left in the other table, want %d", left, rows)
	}
}
