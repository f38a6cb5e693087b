package loader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// imported is a schema of a table that is imported, and another one that is used meanwhile.
var imported = &percolator.Schema{Tables: []percolator.Table{
	{Name: "t", Observed: []string{"c"}, Indexes: []percolator.Index{{Name: "name", Column: "name", Unique: true}, {Name: "kind", Column: "kind"}}},
	{Name: "o"},
}}

// bulkEnv is an environment in a bubble.
func bulkEnv(t *testing.T, opts ...percolatortest.Option) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*limit) // virtual time
	t.Cleanup(cancel)
	return &env{t, percolatortest.New(t, imported, opts...), ctx}
}

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	percolatortest.Bubble(t, test)
}

// rowOf is the row of a name: an observed cell, one of each index, and one that is neither.
func rowOf(row string) loader.Row {
	return loader.Row{Row: row, Cells: []model.ImportCell{
		{Column: "c", Value: []byte(row)}, {Column: "name", Value: []byte("name of " + row)},
		{Column: "kind", Value: []byte(row[len(row)-1:])}, {Column: "empty", Value: []byte{}},
	}}
}

const cellsOfRow = 4

func rows(n int) loader.Source[loader.Row] {
	return loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			for i := range n {
				if !yield(rowOf(name("r", i)), nil) {
					return
				}
			}
		}
	}, nil)
}

func bulkConfig() loader.BulkConfig {
	return loader.BulkConfig{Table: "t", Source: "a test", Concurrency: 2, CheckpointInterval: 1}
}

// wantRows checks that a client sees n whole rows, by keys and by both indexes.
func (e *env) wantRows(c *percolator.Client, n int) {
	e.Helper()
	s, err := c.Snapshot(e.ctx)
	fixture.Must(e, err)
	cells := 0
	for entry, err := range s.Scan(e.ctx, "t", percolator.All()) {
		fixture.Must(e, err)
		for _, want := range rowOf(entry.Cell.Row).Cells {
			if want.Column == entry.Cell.Column && string(want.Value) != string(entry.Value) {
				e.Errorf("%s holds %q", entry.Cell, entry.Value)
			}
		}
		cells++
	}
	names, kinds := 0, 0
	for _, err := range s.ScanIndex(e.ctx, "t", "name", percolator.All()) {
		fixture.Must(e, err)
		names++
	}
	for _, err := range s.ScanIndex(e.ctx, "t", "kind", percolator.All()) {
		fixture.Must(e, err)
		kinds++
	}
	if cells != cellsOfRow*n || names != n || kinds != n {
		e.Errorf("%d cells, %d and %d entries, want those of %d rows", cells, names, kinds, n)
	}
}

// During an import its table is refused as a whole and the others are used; a snapshot sees all
// rows or is refused (I28). Workers then run for every observed cell.
func TestBulkIsSeenWholeOrNotAtAll(t *testing.T) {
	fixture.Long(t)
	inBubble(t, testBulkIsSeenWholeOrNotAtAll)
}

func testBulkIsSeenWholeOrNotAtAll(t *testing.T) {
	const n = 1200
	e := bulkEnv(t)
	other := e.NewClient()
	before, err := other.Begin(e.ctx)
	fixture.Must(t, err)
	old, err := other.Snapshot(e.ctx)
	fixture.Must(t, err)
	fixture.Must(t, before.Set(cell("before"), []byte("v")))

	registry := observers.NewRegistry()
	var ran sync.Map
	registry.Observe("count", "t", "c", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		ran.Store(ch.Cell.Row, true)
		return tx.Set(percolator.Cell{Table: "o", Row: ch.Cell.Row, Column: "seen"}, ch.Value)
	})
	w, err := observers.NewWorker(e.NewClient(), registry, observers.Config{DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
	fixture.Must(t, err)
	working, stop := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()

	looks, writes := 0, 0
	cfg := bulkConfig()
	source := func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(n)(ctx, from) {
				if looks++; looks%400 == 0 { // the import is in the middle of it
					e.wantFenced(other)
					_, err := other.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
						return tx.Set(percolator.Cell{Table: "o", Row: fmt.Sprint(looks), Column: "c"}, []byte("v"))
					})
					fixture.Must(t, err)
					writes++
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
	r, err := loader.Bulk(e.ctx, e.Client, cfg, source)
	fixture.Must(t, err)
	if r.Items != n || r.Table.Rows != n || r.Table.Entries != 2*n || r.Source != r.Table.ImportSum || r.Source.Cells != n*cellsOfRow || writes != 3 {
		t.Errorf("%+v", r)
	}
	time.Sleep(time.Minute) // until other clients know
	e.wantRows(other, n)
	_, err = old.Get(e.ctx, cell("before"))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	_, err = before.Commit(e.ctx)
	fixture.WantErr(t, err, percolator.ErrConflict)
	at, err := other.Snapshot(e.ctx, percolator.AsOfTimestamp(r.Since-1))
	fixture.Must(t, err)
	_, err = at.Get(e.ctx, cell(name("r", 0)))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	at, err = other.Snapshot(e.ctx, percolator.AsOfTimestamp(r.Since))
	fixture.Must(t, err)
	fixture.WantValue(t, e.ctx, at, cell(name("r", n-1)), name("r", n-1))

	fixture.Must(t, w.WaitIdle(e.ctx))
	seen := 0
	ran.Range(func(any, any) bool { seen++; return true })
	if parked := w.Stats().Parked; seen != n || parked != 0 {
		t.Errorf("observers have run for %d rows, %d are parked", seen, parked)
	}
	stop()
	fixture.Must(t, <-done)
	e.Audit(t)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(1))
	fixture.WantErr(t, err, admin.ErrNotEmpty)
	e.wantRows(other, n) // it has left no fence
}

// wantFenced checks that a client refuses everything that concerns table t.
func (e *env) wantFenced(c *percolator.Client) {
	e.Helper()
	s, err := c.Snapshot(e.ctx)
	fixture.Must(e, err)
	_, err = s.Get(e.ctx, cell("x"))
	fixture.WantErr(e, err, admin.ErrImporting)
	e.mentions(err, `"t"`, "a test", "percolator import", "--abort")
	_, err = s.GetMulti(e.ctx, percolator.Cell{Table: "o", Row: "x", Column: "c"}, cell("x"))
	fixture.WantErr(e, err, admin.ErrImporting)
	for _, err := range s.Scan(e.ctx, "t", percolator.All()) {
		fixture.WantErr(e, err, admin.ErrImporting)
	}
	for _, err := range s.ScanIndex(e.ctx, "t", "name", percolator.All()) {
		fixture.WantErr(e, err, admin.ErrImporting)
	}
	both, err := c.Begin(e.ctx)
	fixture.Must(e, err)
	fixture.Must(e, both.Set(percolator.Cell{Table: "o", Row: "both", Column: "c"}, []byte("v")))
	fixture.Must(e, both.Set(cell("both"), []byte("v")))
	_, err = both.Commit(e.ctx)
	fixture.WantErr(e, err, admin.ErrImporting)
	_, err = s.Get(e.ctx, percolator.Cell{Table: "o", Row: "both", Column: "c"})
	fixture.WantErr(e, err, percolator.ErrNotFound)
	_, err = loader.Load(e.ctx, c, loader.Config{}, loader.Job[string]{Source: source("x", 1), Write: loader.Each(set)})
	fixture.WantErr(e, err, admin.ErrImporting)
}

// The importing process dies at each of its requests, or an answer is lost there, or a request
// arrives twice. Nobody sees a part of the table, and the same call in another process ends with
// all of it.
func TestBulkEndedAnywhere(t *testing.T) {
	fixture.Long(t)
	for name, effect := range map[string]percolatortest.Effect{
		"crash": percolatortest.Crash, "lost answer": percolatortest.LoseAnswer, "lost request": percolatortest.LoseRequest, "duplicate": percolatortest.Duplicate,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { testBulkEndedAnywhere(t, effect, false) })
		})
	}
}

// The same for an abort of an import that was broken off.
func TestBulkAbortedAnywhere(t *testing.T) {
	fixture.Long(t)
	for name, effect := range map[string]percolatortest.Effect{
		"crash": percolatortest.Crash, "lost answer": percolatortest.LoseAnswer, "lost request": percolatortest.LoseRequest, "duplicate": percolatortest.Duplicate,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { testBulkEndedAnywhere(t, effect, true) })
		})
	}
}

func testBulkEndedAnywhere(t *testing.T, effect percolatortest.Effect, abort bool) {
	const n = 20 // three batches
	e := bulkEnv(t)
	other := e.NewClient()
	errDies := errors.New("dies")
	for nth, ended := 1, false; !ended; nth++ {
		if !fixture.Sampled(fmt.Sprint(t.Name(), nth)) {
			continue
		}
		cfg := bulkConfig()
		cfg.RowsPerRequest = 8
		cfg.OutageTimeout = time.Millisecond // a crashed client's requests fail at once
		if effect != percolatortest.Crash {
			cfg.OutageTimeout = time.Minute
		}
		client := e.NewClient()
		work := func(c *percolator.Client, cfg loader.BulkConfig) error {
			_, err := loader.Bulk(e.ctx, c, cfg, rows(n))
			return err
		}
		if abort { // of an import that has come to its middle
			cfg.Failed = func(loader.Failure[loader.Row]) error { return errDies }
			_, err := loader.Bulk(e.ctx, e.Client, cfg, badRow(n))
			fixture.WantErr(t, err, errDies)
			work = func(c *percolator.Client, _ loader.BulkConfig) error {
				_, err := loader.AbortImport(e.ctx, c, "t", nil, nil)
				return err
			}
		}
		var requests atomic.Int64
		hit := false
		fault := func(r percolatortest.Request) percolatortest.Action {
			if r.Table == "percolator_meta" && r.Row == "meta" && r.Method == percolatortest.ReadRows { // also in the background
				return percolatortest.Pass
			}
			if requests.Add(1) == int64(nth) {
				hit = true
				return effect
			}
			return percolatortest.Pass
		}
		e.FaultsOf(client).Handle(fault)
		err := work(client, cfg)
		ended = !hit
		if err != nil {
			s, serr := other.Snapshot(e.ctx)
			fixture.Must(t, serr)
			if _, err := s.Get(e.ctx, cell(name("r", 0))); err == nil {
				t.Fatalf("request %d: half of the table can be read", nth)
			}
			cfg.OutageTimeout = time.Minute
			if err := work(e.Client, cfg); err != nil {
				t.Fatalf("request %d: %v, then %v", nth, err, err)
			}
		}
		_ = client.Close()
		time.Sleep(time.Minute)
		if abort {
			e.wantRows(other, 0)
			for _, table := range []string{"t", "t.name", "t.kind"} {
				if left := e.wipe(table); left > 0 {
					t.Fatalf("request %d: %d rows are left in %s", nth, left, table)
				}
			}
		} else {
			e.wantRows(other, n)
		}
		e.Audit(t)
		if t.Failed() {
			t.Fatalf("request %d", nth)
		}
		e.wipe("t", "t.name", "t.kind")
		t.Logf("request %d: %v", nth, err)
		if nth > 200 && !ended {
			t.Fatal("it makes too many requests")
		}
	}
}

// badRow has a row in its middle that cannot be stored.
func badRow(n int) loader.Source[loader.Row] {
	return loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			for i := range n {
				row := rowOf(name("r", i))
				if i == n/2 {
					row.Row = ""
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}, nil)
}

func (e *env) now() tso.Timestamp {
	e.Helper()
	ts, err := e.Oracle.Next(e.ctx)
	fixture.Must(e, err)
	return ts
}

// wipe empties tables behind everybody's back, and returns how many rows there were.
func (e *env) wipe(tables ...string) (n int) {
	e.Helper()
	for _, name := range tables {
		table := e.Store().Open(name)
		var keys []string
		var gone []*bigtable.Mutation
		fixture.Must(e, table.ReadRows(e.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			mut := bigtable.NewMutation()
			mut.DeleteRow()
			keys, gone, n = append(keys, r.Key()), append(gone, mut), n+1
			return true
		}))
		if len(keys) > 0 {
			_, err := table.ApplyBulk(e.ctx, keys, gone)
			fixture.Must(e, err)
		}
	}
	return n
}

// Rows that cannot be stored, and errors of the source, are told one by one, and the rest is
// imported, if the caller wants that.
func TestBulkPassesOver(t *testing.T) { inBubble(t, testBulkPassesOver) }

func testBulkPassesOver(t *testing.T) {
	e := bulkEnv(t)
	errLine := errors.New("line 3 cannot be read")
	source := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			_ = yield(rowOf("a"), nil) && yield(loader.Row{Row: strings.Repeat("k", 5000), Cells: rowOf("k").Cells}, nil) &&
				yield(loader.Row{}, errLine) && yield(loader.Row{Row: "weak", Cells: []model.ImportCell{{Column: "a\x00b"}}}, nil) && yield(rowOf("b"), nil)
		}
	}, nil)
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), source)
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	cfg := bulkConfig()
	var told []error
	cfg.Failed = func(f loader.Failure[loader.Row]) error { told = append(told, f.Err); return nil }
	_, err = loader.Bulk(e.ctx, e.Client, cfg, source)
	fixture.WantErr(t, err, errLine)
	cfg.SourceFailed = func(err error) error { told = append(told, err); return nil }
	told = nil
	r, err := loader.Bulk(e.ctx, e.Client, cfg, source)
	fixture.Must(t, err)
	if len(told) < 1 || r.FailedBefore+r.Failed != 2 || r.Table.Rows != 2 {
		t.Errorf("%+v, told %v", r, told)
	}
	e.wantRows(e.Client, 2)
}

// Two rows that share a value of a unique index, and a cell that comes twice, are found, and keep
// the fence up; the report names rows and no values.
func TestBulkFindsDuplicates(t *testing.T) { inBubble(t, testBulkFindsDuplicates) }

func testBulkFindsDuplicates(t *testing.T) {
	e := bulkEnv(t)
	twice := func(row loader.Row) loader.Source[loader.Row] {
		return loader.Replay(func(ctx context.Context) iter.Seq2[loader.Row, error] {
			return func(yield func(loader.Row, error) bool) {
				for item, err := range rows(700)(ctx, loader.Position{}) {
					if !yield(item.Value, err) {
						return
					}
				}
				yield(row, nil)
			}
		}, nil)
	}
	same := rowOf(name("r", 7))
	same.Row = "other"
	r, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), twice(same))
	fixture.WantErr(t, err, percolator.ErrUnique)
	e.mentions(err, name("r", 7), `"name"`)
	if u, ok := errors.AsType[*percolator.UniqueError](err); !ok || u.Index != "name" {
		t.Errorf("%v is no UniqueError of the index", err)
	}
	if strings.Contains(err.Error(), "name of") || len(r.Table.Findings) != 1 {
		t.Errorf("%v, %+v", err, r.Table.Findings)
	}
	_, err = e.Client.Update(e.ctx, func(ctx context.Context, tx *percolator.Txn) error { return set(ctx, tx, "x") })
	fixture.WantErr(t, err, admin.ErrImporting)
	aborted, err := loader.AbortImport(e.ctx, e.Client, "t", nil, nil)
	if err != nil || !aborted {
		t.Fatalf("%v, %v", aborted, err)
	}
	e.wantRows(e.Client, 0)

	changed := rowOf(name("r", 7))
	changed.Cells = changed.Cells[3:]
	changed.Cells[0].Value = []byte("not empty")
	cfg := bulkConfig()
	cfg.Source = "another test"
	_, err = loader.Bulk(e.ctx, e.Client, cfg, twice(changed))
	fixture.WantErr(t, err, percolator.ErrCorrupt)
	e.mentions(err, "more than once", "abort")
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(1)) // another source meanwhile
	fixture.WantErr(t, err, admin.ErrImporting)
	e.mentions(err, "another test")
	_, err = transfer.BeginRestore(e.ctx, e.Client.Engine(), "backup", nil, nil)
	fixture.WantErr(t, err, admin.ErrImporting)
	_, err = admin.New(e.Client).DropFromSchema(e.ctx, &percolator.Schema{Tables: imported.Tables[1:]}, admin.DropOptions{})
	fixture.WantErr(t, err, admin.ErrImporting)
	for _, err := range transfer.ExportRows(e.ctx, e.Client.Engine(), e.now(), "t", percolator.All()) {
		fixture.WantErr(t, err, admin.ErrImporting)
	}
	_, err = loader.AbortImport(e.ctx, e.Client, "t", nil, nil)
	fixture.Must(t, err)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(700))
	fixture.Must(t, err)
	e.wantRows(e.Client, 700)
	e.Audit(t)
}

// An import that takes longer than the retention lies below the safepoint when it ends. Neither
// collection, while it is under way or afterwards, nor a deletion takes anything from it.
func TestBulkBesideCollection(t *testing.T) {
	fixture.Long(t)
	inBubble(t, testBulkBesideCollection)
}

func testBulkBesideCollection(t *testing.T) {
	const n = 700
	short := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = 10 * time.Minute })
	e := bulkEnv(t, short)
	g, err := admin.New(e.NewClient(short)).NewCollector(admin.CollectorConfig{})
	fixture.Must(t, err)
	collect := func() tso.Timestamp {
		time.Sleep(20 * time.Minute) // more than the retention
		c, err := g.Collect(e.ctx)
		fixture.Must(t, err)
		return c.Safepoint
	}
	var mark tso.Timestamp
	i := 0
	source := func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(n)(ctx, from) {
				if i++; i == n-5 {
					mark = collect()
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
	r, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), source)
	fixture.Must(t, err)
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	for entry, err := range s.Scan(e.ctx, "t", percolator.Row(name("r", 0))) {
		if fixture.Must(t, err); entry.CommitTS >= mark {
			t.Errorf("committed at %d, the watermark is %d", entry.CommitTS, mark)
		}
	}
	e.wantRows(e.Client, n)
	collect()
	e.wantRows(e.Client, n)
	e.Audit(t)
	_, err = e.Client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Delete(percolator.Cell{Table: "t", Row: name("r", 3), Column: "empty"}), tx.Set(percolator.Cell{Table: "t", Row: name("r", 3), Column: "kind"}, []byte("new")))
	})
	fixture.Must(t, err)
	fixture.Must(t, e.Client.Flush(e.ctx))
	collect()
	e.Audit(t, fixture.Collected)
	if r.Since == 0 {
		t.Error("since when?")
	}
}

// A client that does not know of the fence yet commits until it must. So the look whether the table
// is empty comes after the drain, and the import is refused.
func TestBulkWaitsForThoseWhoDoNotKnow(t *testing.T) { inBubble(t, testBulkWaitsForThoseWhoDoNotKnow) }

func testBulkWaitsForThoseWhoDoNotKnow(t *testing.T) {
	e := bulkEnv(t)
	blind := e.NewClient()
	e.FaultsOf(blind).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "percolator_meta" && r.Row == "meta" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	cfg := bulkConfig()
	committed := make(chan error, 1)
	cfg.Waiting = func(time.Duration) {
		go func() {
			time.Sleep(30 * time.Second)
			_, err := blind.Update(e.ctx, func(ctx context.Context, tx *percolator.Txn) error { return set(ctx, tx, "x") })
			committed <- err
		}()
	}
	_, err := loader.Bulk(e.ctx, e.Client, cfg, rows(10))
	fixture.WantErr(t, err, admin.ErrNotEmpty)
	fixture.Must(t, <-committed)
	time.Sleep(time.Minute)
	fixture.WantNow(t, e.ctx, e.Client, cell("x"), "x") // and there is no fence
}

// A process that imports writes nothing more once the import is aborted, and what it had sent
// before is removed.
func TestBulkEndsWithItsAbort(t *testing.T) { inBubble(t, testBulkEndsWithItsAbort) }

func testBulkEndsWithItsAbort(t *testing.T) {
	e := bulkEnv(t)
	importing := e.NewClient()
	late := percolatortest.NewHold()
	e.FaultsOf(importing).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows && r.Table == "t" }, late))
	i := 0
	source := func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(3000)(ctx, from) {
				if i++; i == 600 { // its first request is under way
					late.Wait(e, 1)
					go func() {
						time.Sleep(20 * time.Second)
						late.Release()
					}()
					aborted, err := loader.AbortImport(e.ctx, e.Client, "t", nil, nil)
					if err != nil || !aborted {
						t.Errorf("%v, %v", aborted, err)
					}
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
	_, err := loader.Bulk(e.ctx, importing, bulkConfig(), source)
	if !errors.Is(err, percolator.ErrConflict) && !errors.Is(err, admin.ErrImporting) { // it has ended, or is under way
		t.Errorf("%v", err)
	}
	time.Sleep(time.Minute)
	if n := e.wipe("t", "t.name", "t.kind"); n > 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A repair to a timestamp before an import has ended puts the fence back: nothing says which rows
// the copies of the tables had by then. The import goes on from its beginning, under the same
// timestamps.
func TestRepairOfAnImport(t *testing.T) {
	fixture.Long(t)
	for name, at := range map[string]int{"before it": 0, "in the middle of it": 600} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { testRepairOfAnImport(t, at) }) })
	}
}

func testRepairOfAnImport(t *testing.T, at int) {
	const n = 700
	e := bulkEnv(t)
	a := admin.New(e.Client)
	var to tso.Timestamp
	take := func() {
		_, err := a.TakeHold(e.ctx, 1, 24*time.Hour, "")
		fixture.Must(t, err)
		to, err = e.Oracle.Next(e.ctx)
		fixture.Must(t, err)
	}
	if at == 0 {
		take()
	}
	i := 0
	source := func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(n)(ctx, from) {
				if i++; i == at {
					take()
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
	first, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), source)
	fixture.Must(t, err)
	e.wantRows(e.Client, n)
	_, err = a.Repair(e.ctx, model.RepairOptions{To: to})
	fixture.Must(t, err)
	e.wantFenced(e.Client)
	second, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
	fixture.Must(t, err)
	if second.Resumed || second.Items != n || second.Since <= first.Since {
		t.Errorf("%+v after %+v", second, first)
	}
	e.wantRows(e.Client, n)
	e.Audit(t, func(cfg *model.AuditConfig) { cfg.SkipJournal = true }) // it is building
}

// The check reads a table in few parts, however many keys the store samples, and each part in few
// requests. The emulator samples one key in a hundred.
func TestBulkChecksInFewRequests(t *testing.T) { inBubble(t, testBulkChecksInFewRequests) }

func testBulkChecksInFewRequests(t *testing.T) {
	const n, parts, others = 10_000, 64, 40
	e := bulkEnv(t)
	source := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			for i := range n {
				if !yield(loader.Row{Row: name("r", i), Cells: []model.ImportCell{{Column: "c", Value: []byte("v")}}}, nil) {
					return
				}
			}
		}
	}, nil)
	before := e.Client.Stats()
	r, err := loader.Bulk(e.ctx, e.Client, loader.BulkConfig{Table: "o", Source: "a test"}, source)
	if err != nil || r.Table.Rows != n {
		t.Fatalf("%+v, %v", r, err)
	}
	reads := e.Client.Stats().Requests["ReadRows"] - before.Requests["ReadRows"]
	if reads > parts+others {
		t.Errorf("%d rows were written and checked with %d reads, want %d at most", n, reads, parts+others)
	}
}

// What is wrong with the first rows shows before the fence: the table stays open, and nothing
// waits. What Failed and SourceFailed take does not count, and an import that goes on does without.
func TestBulkProbes(t *testing.T) { inBubble(t, testBulkProbes) }

func testBulkProbes(t *testing.T) {
	e := bulkEnv(t)
	unreadable := errors.New("a line that is no row")
	list := []loader.Row{rowOf("a"), rowOf("b"), {}, rowOf("c")}
	source := func(failed error) loader.Source[loader.Row] {
		return loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
			return func(yield func(loader.Row, error) bool) {
				for i, row := range list {
					if i == 1 && failed != nil && !yield(loader.Row{}, failed) || !yield(row, nil) {
						return
					}
				}
			}
		}, nil)
	}
	cfg := bulkConfig()
	cfg.Waiting = func(time.Duration) { t.Error("it waits") }
	var item *loader.ItemError
	for _, all := range []bool{false, true} {
		if cfg.Probe = 3; all {
			cfg.Probe, cfg.MaxInFlightBytes = -1, 1
		}
		r, err := loader.Bulk(e.ctx, e.Client, cfg, source(nil))
		if !errors.Is(err, loader.ErrNotBegun) || !errors.As(err, &item) || item.Index != 2 || r.Elapsed != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	cfg.Probe, cfg.MaxInFlightBytes = 3, 0
	_, err := loader.Bulk(e.ctx, e.Client, cfg, source(unreadable))
	if !errors.Is(err, loader.ErrNotBegun) || !errors.Is(err, unreadable) {
		t.Error(err)
	}
	e.wantRows(e.NewClient(), 0)

	// Behind the probe it is the import that ends.
	cfg.Probe, cfg.Waiting = 2, nil
	if _, err = loader.Bulk(e.ctx, e.Client, cfg, source(nil)); errors.Is(err, loader.ErrNotBegun) || !errors.As(err, &item) {
		t.Error(err)
	}
	cfg.Probe = 3
	if _, err = loader.Bulk(e.ctx, e.Client, cfg, source(nil)); errors.Is(err, loader.ErrNotBegun) || !errors.As(err, &item) {
		t.Error(err)
	}
	_, err = loader.AbortImport(e.ctx, e.Client, "t", nil, nil)
	fixture.Must(t, err)
	cfg.Failed = func(loader.Failure[loader.Row]) error { return nil }
	cfg.SourceFailed = func(error) error { return nil }
	r, err := loader.Bulk(e.ctx, e.Client, cfg, source(unreadable))
	if err != nil || r.Table.Rows != 3 || r.Failed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
