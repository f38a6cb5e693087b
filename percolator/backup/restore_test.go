package backup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A stalled restore writes nothing more once its tables were emptied, it was abandoned, and the
// instance is in use again.
func TestAbandonedRestoreWritesNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAbandonedRestoreWritesNothing)
}

func testAbandonedRestoreWritesNothing(t *testing.T) {
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(60))
	ctx, store := testContext(t), newMemory()
	m := run(t, env.Client, store, small)
	g := newTarget(t, env)
	c := g.client(store)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := backup.Restore(ctx, c, store, backup.RestoreOptions{Concurrency: 1, Progress: func(backup.Progress) {
			once.Do(func() { close(stopped); <-stop })
		}})
		ended <- err
	}()
	<-stopped
	bt, err := bigtable.NewClient(ctx, env.Project, g.instance, env.Options()...)
	must(t, err)
	defer bt.Close()
	tbl := bt.Open("t")
	var rows []string
	must(t, tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool { rows = append(rows, r.Key()); return true }))
	for _, r := range rows {
		mut := bigtable.NewMutation()
		mut.DeleteRow()
		must(t, tbl.Apply(ctx, r, mut))
	}
	user := g.open()
	must(t, backup.AbandonRestore(ctx, user))
	user = g.open()
	set(t, user, values{cell("t", "mine", "c"): "v"})
	close(stop)
	t.Logf("the restore ended with %v", <-ended)
	got := contents(t, g.open())
	if len(got) != 1 {
		t.Errorf("%d chunks in all: %d cells in an instance in use; want 1", len(m.Chunks), len(got))
	}
}

// A stalled restore revives nothing: another process has finished it meanwhile, and its rows were
// deleted and collected.
func TestSecondRestoreRevivesNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSecondRestoreRevivesNothing)
}

func testSecondRestoreRevivesNothing(t *testing.T) {
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(60))
	ctx, store := testContext(t), newMemory()
	run(t, env.Client, store, small)
	g := newTarget(t, env)
	a := g.client(store)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &hooked{store, func(op, name string) error {
		if strings.HasPrefix(name, "chunks/") {
			once.Do(func() { close(stopped); <-stop })
		}
		return nil
	}}
	ended := make(chan error, 1)
	go func() {
		_, err := backup.Restore(ctx, a, slow, backup.RestoreOptions{Concurrency: 1})
		ended <- err
	}()
	<-stopped
	b := g.open()
	_, err := backup.Restore(ctx, b, store, backup.RestoreOptions{})
	must(t, err)
	u := g.open()
	_, err = u.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
		for i := range 60 {
			err = errors.Join(err, tx.Delete(cell("t", fmt.Sprintf("%04d", i), "c")))
		}
		return err
	})
	must(t, err)
	must(t, u.Flush(ctx))
	env.Clock.Advance(3 * 24 * time.Hour)
	fixture.Collect(t, ctx, u)
	if got := contents(t, u); len(got) > 0 {
		t.Fatalf("%d left", len(got))
	}
	close(stop)
	t.Logf("the stopped restore ended with %v", <-ended)
	if got := contents(t, g.open()); len(got) > 0 {
		t.Errorf("%d deleted cells are there again", len(got))
	}
}

// A restore that ends before it has written anything can be abandoned, also when a client that did
// not know of the fence has committed meanwhile.
func TestAbandonBeforeAnythingWasWritten(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	ctx, store := testContext(t), newMemory()
	run(t, env.Client, store, small)
	same := percolatortest.New(t, plain)
	broken, interrupt := context.WithCancel(ctx)
	_, err := backup.Restore(broken, same.Client, store, backup.RestoreOptions{Waiting: func(time.Duration) {
		mine := bigtable.NewMutation() // of a client that did not know of the fence
		mine.Set("data", "c", 1000, []byte("v"))
		must(t, same.Store().Open("t").Apply(ctx, "mine", mine))
		interrupt()
	}})
	expect(t, err, context.Canceled)
	if err := backup.AbandonRestore(ctx, same.Client); err != nil {
		t.Errorf("nothing was restored, and users' data keeps the fence up: %v", err)
	}
}

// Finishing a restore that took longer than the retention keeps the safepoint that a collector
// announces meanwhile.
func TestFinishKeepsLaterSafepoint(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testFinishKeepsLaterSafepoint)
}

func testFinishKeepsLaterSafepoint(t *testing.T) {
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	ctx, store := testContext(t), newMemory()
	run(t, env.Client, store, small)
	same := percolatortest.New(t, plain)
	c := same.NewClient()
	collecting := same.NewClient()
	armed := false
	var announced int64
	collected := make(chan error, 1)
	same.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if armed && r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta" {
			armed = false
			col, err := admin.New(collecting).NewCollector(admin.CollectorConfig{})
			must(t, err)
			go func() { _, err := col.Collect(ctx); collected <- err }()
			for announced == 0 {
				b, err := admin.New(collecting).CollectionBounds(ctx)
				must(t, err)
				announced = int64(b.Safepoint)
			}
		}
		return percolatortest.Pass
	})
	_, err := backup.Restore(ctx, c, store, backup.RestoreOptions{Progress: func(at backup.Progress) {
		if at.Done == at.All {
			same.Clock.Advance(10 * 24 * time.Hour)
			armed = true
		}
	}})
	must(t, err)
	must(t, <-collected)
	b, err := admin.New(same.NewClient()).CollectionBounds(ctx)
	must(t, err)
	if announced == 0 || int64(b.Safepoint) < announced || b.Safepoint < b.Watermark {
		t.Errorf("announced %d, and now the safepoint is %d, the GC watermark %d", announced, b.Safepoint, b.Watermark)
	}
}

// A transaction that saw the empty tables from before a restore commits neither during it nor
// afterwards (I20).
func TestTransactionFromBeforeTheRestore(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testTransactionFromBeforeTheRestore)
}

func testTransactionFromBeforeTheRestore(t *testing.T) {
	env := percolatortest.New(t, plain)
	ctx, store := testContext(t), newMemory()
	set(t, env.Client, plainRows(20))
	run(t, env.Client, store, small)
	same := percolatortest.New(t, plain)
	begin := func() *percolator.Txn {
		tx, err := same.NewClient().Begin(ctx)
		must(t, err)
		if _, err := tx.Get(ctx, cell("t", "other", "c")); !errors.Is(err, percolator.ErrNotFound) {
			t.Fatal(err)
		}
		must(t, tx.Set(cell("t", "mine", "c"), []byte("from an empty table")))
		return tx
	}
	during, afterwards := begin(), begin()
	progress := 0
	must(t, errOf(backup.Restore(ctx, same.Client, store, backup.RestoreOptions{Progress: func(backup.Progress) {
		if progress++; progress == 1 {
			if ts, err := during.Commit(ctx); err == nil {
				t.Errorf("committed at %d while the restore was under way", ts)
			}
		}
	}})))
	if progress == 0 {
		t.Error("nothing was tried during the restore")
	}
	if ts, err := afterwards.Commit(ctx); err == nil {
		t.Errorf("committed at %d after the restore", ts)
	}
	equal(t, contents(t, same.NewClient()), contents(t, env.Client))
}

// A restore discards the position of an index backfill that was interrupted before the tables were
// emptied.
func TestStaleBackfillPosition(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testStaleBackfillPosition)
}

func testStaleBackfillPosition(t *testing.T) {
	ctx := testContext(t)
	with := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "x", Column: "c"}}}}, Timing: quick}
	source := percolatortest.New(t, plain)
	set(t, source.Client, plainRows(300))
	must(t, percolator.CreateSchema(ctx, source.Project, source.Instance, with, source.Options()...))
	store := newMemory()
	m := run(t, source.NewClient(), store, backup.Options{})
	if len(m.IncompleteIndexes) != 1 {
		t.Fatal(m.IncompleteIndexes)
	}
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(300))
	must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, with, env.Options()...))
	c := env.NewClient()
	broken, interrupt := context.WithCancel(ctx)
	_, err := admin.New(c).BackfillIndex(broken, "t", "x", admin.BackfillOptions{RowsPerTransaction: 10, Concurrency: 1, Progress: func(p admin.BackfillProgress) {
		if p.Row > "0200" {
			interrupt()
		}
	}})
	interrupt()
	t.Logf("the former backfill: %v", err)
	for _, table := range []string{"t", "t.x"} {
		tbl := env.Store().Open(table)
		var rows []string
		must(t, tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool { rows = append(rows, r.Key()); return true }))
		for _, r := range rows {
			mut := bigtable.NewMutation()
			mut.DeleteRow()
			must(t, tbl.Apply(ctx, r, mut))
		}
	}
	must(t, errOf(backup.Restore(ctx, c, store, backup.RestoreOptions{})))
	u := env.NewClient()
	report, err := admin.New(u).BackfillIndex(ctx, "t", "x", admin.BackfillOptions{})
	must(t, err)
	n := 0
	snap, err := u.Snapshot(ctx)
	must(t, err)
	for _, err := range snap.ScanIndex(ctx, "t", "x", percolator.All()) {
		must(t, err)
		n++
	}
	if n != 300 {
		t.Errorf("resumed %v; the index is ready, and has %d of 300 entries", report.Resumed, n)
	}
}

// A restore is broken off after each chunk, and at each request to the store of objects; the next
// one goes on. Until the last one has ended nobody can read or write.
func TestRestoreIsResumed(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	fill(t, env.Client)
	ctx, store := testContext(t), newMemory()
	m := run(t, env.Client, store, small)
	g := newTarget(t, env)
	c := g.client(store)
	other := g.open()
	for n := range m.Chunks {
		broken, interrupt := context.WithCancel(ctx)
		_, err := backup.Restore(broken, c, store, backup.RestoreOptions{Concurrency: 1, Progress: func(at backup.Progress) {
			if at.Done != n+1 {
				t.Errorf("%d chunks are done, want %d", at.Done, n+1)
			}
			interrupt()
		}})
		interrupt()
		if n < len(m.Chunks)-1 {
			expect(t, err, context.Canceled)
		}
		_, err = other.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell("bytes", "r", "c"), nil) })
		expect(t, err, admin.ErrRestoring)
		snap, err := other.Snapshot(ctx)
		must(t, err)
		_, err = snap.Get(ctx, cell("bytes", "r", "c"))
		expect(t, err, admin.ErrRestoring)
		c = g.client(store) // in another process
	}
	report, err := backup.Restore(ctx, c, store, backup.RestoreOptions{})
	must(t, err)
	if !report.Resumed || report.Written != m.Total {
		t.Errorf("resumed %v, %+v written of %+v", report.Resumed, report.Written, m.Total)
	}
	g.audit(mixed)
	equal(t, contents(t, g.open()), contents(t, env.Client))
	_, err = backup.Restore(ctx, g.open(), store, backup.RestoreOptions{})
	expect(t, err, admin.ErrNotEmpty)
}

// A restore goes into empty tables only, of the same schema, and harms nobody where it is refused.
func TestRestoreIsRefused(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRestoreIsRefused)
}

func testRestoreIsRefused(t *testing.T) {
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t"}, {Name: "u"}}, Timing: quick}
	env := percolatortest.New(t, schema)
	set(t, env.Client, values{cell("u", "r", "c"): "v"})
	ctx, store := testContext(t), newMemory()
	m := run(t, env.Client, store, small)
	_, err := backup.Restore(ctx, env.Client, store, backup.RestoreOptions{})
	expect(t, err, admin.ErrNotEmpty)
	if !strings.Contains(err.Error(), `"u"`) {
		t.Errorf("the table is not named: %v", err)
	}
	set(t, env.Client, values{cell("u", "r", "c"): "still works"})

	lacking := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	_, err = backup.Restore(ctx, lacking.Client, store, backup.RestoreOptions{})
	expect(t, err, percolator.ErrSchemaMismatch)
	expect(t, backup.PrepareRestore(ctx, admin.Instance{Project: lacking.Project, ID: lacking.Instance, Options: lacking.Options()}, m.ID, schema), percolator.ErrSchemaMismatch)

	expect(t, backup.AbandonRestore(ctx, lacking.Client), nil)

	// Of an instance that has the schema: it waits, since there may be clients, and two backups
	// cannot be mixed.
	same := percolatortest.New(t, schema)
	waited := false
	broken, interrupt := context.WithCancel(ctx)
	_, err = backup.Restore(broken, same.Client, store, backup.RestoreOptions{
		Waiting:  func(d time.Duration) { waited = d > quick.RequestLifetime },
		Progress: func(backup.Progress) { interrupt() },
	})
	interrupt()
	if !waited {
		t.Errorf("it did not wait: %v", err)
	}
	if err := backup.AbandonRestore(ctx, same.Client); !errors.Is(err, admin.ErrNotEmpty) {
		t.Errorf("abandoned with rows in it: %v", err)
	}
	second := newMemory()
	run(t, env.Client, second, small)
	expect(t, errOf(backup.Restore(ctx, same.Client, second, backup.RestoreOptions{})), admin.ErrRestoring)

	// Somebody empties a table in the middle: what was restored is not taken for done.
	mut := bigtable.NewMutation()
	mut.DeleteRow()
	must(t, same.Store().Open("u").Apply(ctx, "r", mut))
	expect(t, errOf(backup.Restore(ctx, same.Client, store, backup.RestoreOptions{})), percolator.ErrConflict)
	must(t, backup.AbandonRestore(ctx, same.Client))
	must(t, errOf(backup.Restore(ctx, same.NewClient(), store, backup.RestoreOptions{})))
	equal(t, contents(t, same.NewClient()), values{cell("u", "r", "c"): "v"})
}
