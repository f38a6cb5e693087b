package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// In these tests a request passes over sparseRows rows of a table that has ten times as many, and
// what is looked for is in few of them.
const sparseRows = 60

// newSparseEnv fills table t with rows that nobody looks for.
func newSparseEnv(t *testing.T, ctx context.Context) *percolatortest.Env {
	t.Helper()
	s := fixture.Schema()
	s.Timing = percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}
	env := percolatortest.New(t, s, fixture.CutReads(sparseRows))
	fixture.Fill(t, ctx, env, "t", 10*sparseRows)
	return env
}

// TestSparseReads: whatever searches a table for something rare comes to its end.
func TestSparseReads(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := newSparseEnv(t, ctx)
	a, early, late := admin.New(env.Client), fixture.Key(2), fixture.Key(10*sparseRows-2)
	before, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	fixture.Put(t, ctx, env.Client, early, "seen", "v", late, "seen", "v") // notifies both
	fixture.CrashAfter(t, env, nil, fixture.Key(3), fixture.Key(10*sparseRows-3))

	pending, locks := "", ""
	for row, err := range a.ScanPending(ctx, "t", percolator.All()) {
		fixture.Must(t, err)
		pending += row.Row + " "
	}
	for l, err := range a.ListLocks(ctx, "t", percolator.All(), admin.LockOptions{}) {
		fixture.Must(t, err)
		locks += l.Lock.Cell.Row + " "
	}
	if want := early + " " + fixture.Key(3) + " " + fixture.Key(10*sparseRows-3) + " " + late + " "; pending != want {
		t.Errorf("pending: %q, want %q", pending, want)
	}
	if want := fixture.Key(3) + " " + fixture.Key(10*sparseRows-3) + " "; locks != want {
		t.Errorf("locks: %q, want %q", locks, want)
	}
	page, err := env.Client.Engine().Reads.ReadPending(store.InBackground(ctx), "t", percolator.Between(fixture.Key(4), ""), 1, 0)
	for err == nil && len(page.Rows) == 0 && page.More {
		page, err = env.Client.Engine().Reads.ReadPending(store.InBackground(ctx), "t", page.Rest, 1, 0)
	}
	if err != nil || len(page.Rows) != 1 || page.Rows[0].Row != fixture.Key(10*sparseRows-3) {
		t.Errorf("a page of pending rows: %v, %v", page.Rows, err)
	}
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	for ts, want := range map[tso.Timestamp]bool{before: true, now: false} {
		if written, err := env.Client.Engine().Reads.WrittenSince(store.InBackground(ctx), "t", ts); err != nil || written != want {
			t.Errorf("written since %d: %v, %v", ts, written, err)
		}
	}
}

// TestSparseWalks: what walks through a table saves how far it has come without finding anything.
func TestSparseWalks(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := newSparseEnv(t, ctx)
	fixture.Put(t, ctx, env.Client, fixture.Key(10*sparseRows-1), "seen", "v")
	a, empty := admin.New(env.Client), 0
	p, err := a.BackfillObserver(ctx, "t", "seen", "O", admin.ObserverOptions{Count: true, Progress: func(p admin.ObserverProgress) {
		if p.Rows == 0 && p.Row != "" {
			empty++
		}
	}})
	if err != nil || p.Rows != 1 || p.Changed != 1 || p.Total != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if empty == 0 {
		t.Error("no position was saved while nothing was found")
	}
	fixture.Fill(t, ctx, env, "people", 10*sparseRows)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "people", Row: fixture.Key(10*sparseRows - 1), Column: "city"}, []byte("Bonn"))
	}))
	r, err := a.VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{})
	if err != nil || r.Cells != 1 || r.Entries != 1 || r.Damaged() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSparseBackfillOfAnIndex: few rows have the column of a new index.
func TestSparseBackfillOfAnIndex(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := percolatortest.New(t, peopleSchema(shortTiming), fixture.CutReads(sparseRows))
	fixture.Fill(t, ctx, env, "people", 10*sparseRows)
	fixture.SetPeople(t, ctx, env.Client, fixture.City, fixture.Key(7), "Bonn", fixture.Key(10*sparseRows-1), "Ulm")
	addIndexes(t, ctx, env, env.Client, "city")
	empty, options := 0, atOnce
	options.Progress = func(p admin.BackfillProgress) {
		if p.Row > fixture.Key(8) && p.Row < fixture.Key(10*sparseRows-2) {
			empty++
		}
	}
	p, err := admin.New(env.Client).BackfillIndex(ctx, "people", "city", options)
	if err != nil || p.Phase != admin.BackfillReady {
		t.Fatalf("%+v, %v", p, err)
	}
	if empty == 0 {
		t.Error("it tells of no progress while it finds nothing")
	}
	if got, want := fixture.ListIndexNow(t, ctx, env.Client, "city", percolator.All()), "Bonn:"+fixture.Key(7)+" Ulm:"+fixture.Key(10*sparseRows-1); got != want {
		t.Errorf("the index holds %q, want %q", got, want)
	}
}
