package loader_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// copyOf is what the tables hold.
func (e *env) copyOf(tables ...string) map[string][]bigtable.Row {
	e.Helper()
	out := map[string][]bigtable.Row{}
	for _, name := range tables {
		fixture.Must(e, e.Store().Open(name).ReadRows(e.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			out[name] = append(out[name], r)
			return true
		}))
	}
	return out
}

// putBack makes the tables hold what they did, as if they had been restored from copies.
func (e *env) putBack(held map[string][]bigtable.Row, tables ...string) {
	e.Helper()
	e.wipe(tables...)
	for name, rows := range held {
		for _, r := range rows {
			mut := bigtable.NewMutation()
			for family, items := range r {
				for _, it := range items {
					mut.Set(family, strings.TrimPrefix(it.Column, family+":"), it.Timestamp, it.Value)
				}
			}
			fixture.Must(e, e.Store().Open(name).Apply(e.ctx, r.Key(), mut))
		}
	}
}

// An import that is aborted may come back with the copies of the tables, if the repair goes to a
// timestamp before the abort and the copy of percolator_meta is from after it. The repair fences
// the table again, whatever was imported since, and the abort removes it for good.
func TestRepairOfAnAbortedImport(t *testing.T) {
	fixture.Long(t)
	for name, again := range map[string]int{"aborted": 0, "and under way again": 1, "and imported again": 2} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { testRepairOfAnAbortedImport(t, again) }) })
	}
}

func testRepairOfAnAbortedImport(t *testing.T, again int) {
	const n = 700
	e := bulkEnv(t)
	a := admin.New(e.Client)
	breaks := errors.New("the process ends")
	var to tso.Timestamp
	broken := func(then func()) loader.Source[loader.Row] {
		return func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
			return func(yield func(loader.Item[loader.Row], error) bool) {
				i := 0
				for item, err := range rows(n)(ctx, from) {
					if i++; i == 600 {
						then()
						yield(item, breaks)
						return
					}
					if !yield(item, err) {
						return
					}
				}
			}
		}
	}
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), broken(func() {
		_, err := a.TakeHold(e.ctx, 1, 24*time.Hour, "")
		fixture.Must(t, err)
		to, err = e.Oracle.Next(e.ctx)
		fixture.Must(t, err)
	}))
	fixture.WantErr(t, err, breaks)
	tables := []string{"t", "t.name", "t.kind"}
	held := e.copyOf(tables...)
	if len(held["t"]) == 0 || len(held["t.name"]) == 0 {
		t.Fatal("nothing was written")
	}
	if _, err := loader.AbortImport(e.ctx, e.Client, "t", nil, nil); err != nil {
		t.Fatal(err)
	}
	e.wantRows(e.Client, 0)
	switch again {
	case 1:
		_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), broken(func() {}))
		fixture.WantErr(t, err, breaks)
	case 2:
		_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
		fixture.Must(t, err)
	}
	e.putBack(held, tables...)

	_, err = a.Repair(e.ctx, model.RepairOptions{To: to})
	fixture.Must(t, err)
	e.wantFenced(e.Client)
	if _, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n)); !errors.Is(err, admin.ErrImporting) {
		t.Errorf("what is back is not to be aborted first: %v", err)
	}
	aborted, err := loader.AbortImport(e.ctx, e.Client, "t", nil, nil)
	if err != nil || !aborted {
		t.Fatalf("%v, %v", aborted, err)
	}
	e.wantRows(e.Client, 0)
	if left := e.copyOf(tables...); len(left) > 0 {
		t.Errorf("%d rows are left", len(left["t"])+len(left["t.name"])+len(left["t.kind"]))
	}
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
	fixture.Must(t, err)
	e.wantRows(e.Client, n)
	e.Audit(t, func(cfg *model.AuditConfig) { cfg.SkipJournal = true }) // it is building
}

// A table remembers so many aborted imports, and takes no further one until the safepoint is above
// some of them.
func TestAbortedImportsHaveALimit(t *testing.T) { inBubble(t, testAbortedImportsHaveALimit) }

func testAbortedImportsHaveALimit(t *testing.T) {
	e := bulkEnv(t)
	w := e.Client.Engine().Meta
	m, err := w.Refresh(e.ctx)
	fixture.Must(t, err)
	now, err := e.Oracle.Next(e.ctx)
	fixture.Must(t, err)
	full := meta.Import{ID: "a test"}
	for range meta.MaxErasedImports {
		full.Erased = append(full.Erased, meta.ErasedImport{Start: m.Safepoint + 1, Commit: m.Safepoint + 2, At: now})
	}
	_, err = w.ReplaceImport(e.ctx, "t", nil, &full)
	fixture.Must(t, err)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(1))
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	full.Erased[0].At = m.Safepoint
	_, err = w.ReplaceImport(e.ctx, "t", &meta.Import{ID: "a test", Erased: append([]meta.ErasedImport{{Start: m.Safepoint + 1, Commit: m.Safepoint + 2, At: now}}, full.Erased[1:]...)}, &full)
	fixture.Must(t, err)
	_, err = loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(1))
	fixture.Must(t, err)
}
