package loader_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// rowsNotified are the rows in which a request writes notify cells.
func rowsNotified(r percolatortest.Request) (rows []string) {
	notifies := func(ms []*btpb.Mutation) bool { return fixture.Sets(ms, "notify") }
	switch m := r.Message.(type) {
	case *btpb.MutateRowRequest:
		if notifies(m.Mutations) {
			rows = append(rows, string(m.RowKey))
		}
	case *btpb.CheckAndMutateRowRequest:
		if notifies(slices.Concat(m.TrueMutations, m.FalseMutations)) {
			rows = append(rows, string(m.RowKey))
		}
	case *btpb.MutateRowsRequest:
		for _, e := range m.Entries {
			if notifies(e.Mutations) {
				rows = append(rows, string(e.RowKey))
			}
		}
	}
	return rows
}

// A load of an observed column has every row in the journal before a notify cell is written there
// (J1). So when the loader dies in the middle, the observer runs for everything that is committed:
// a worker finds it by the entries, without a scan. The next load brings the rest.
func TestLoadOfAnObservedColumn(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const items, dies = 60, 25
		e := newEnv(t)
		e.Env = percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}}})
		dying := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = time.Second }))
		var notified atomic.Int64
		e.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
			for _, row := range rowsNotified(r) {
				if found, _, err := admin.New(e.Client).EntriesOf(e.ctx, "t", row); err != nil || len(found) == 0 {
					t.Errorf("row %s is notified, and no entry names it: %v", row, err)
				}
				if notified.Add(1) > dies {
					return percolatortest.Crash
				}
			}
			return percolatortest.Pass
		})
		cfg := loader.Config{Name: "observed", Concurrency: 2, ItemsPerTransaction: 4, CheckpointInterval: 1, DrainTimeout: time.Nanosecond, OutageTimeout: time.Millisecond}
		job := loader.Job[string]{Source: source("o-", items), Write: loader.Each(set)}
		if _, err := loader.Load(e.ctx, dying, cfg, job); err == nil {
			t.Fatal("the loader has survived")
		}
		e.Clock.Advance(2 * time.Second) // its locks are dead

		registry := observers.NewRegistry()
		registry.Observe("copy", "t", "c", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			return tx.Set(percolator.Cell{Table: "t", Row: ch.Cell.Row, Column: "copy"}, ch.Value)
		})
		w, err := observers.NewWorker(e.Client, registry, observers.Config{DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
		fixture.Must(t, err)
		ctx, stop := context.WithCancel(e.ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		fixture.Must(t, w.WaitIdle(e.ctx))
		committed := e.copied()
		if committed == 0 || committed == items {
			t.Errorf("the dead loader has committed %d of %d rows", committed, items)
		}
		if _, err := loader.Load(e.ctx, e.Client, cfg, job); err != nil {
			t.Fatal(err)
		}
		fixture.Must(t, w.WaitIdle(e.ctx))
		if n := e.copied(); n != items {
			t.Errorf("%d rows of %d", n, items)
		}
		if n := w.Stats().Searches; n != 0 {
			t.Errorf("%d rounds of a scanner", n)
		}
		stop()
		fixture.Must(t, <-done)
		e.Audit(t)
	})
}

// copied counts the committed rows. The observer has run for each.
func (e *env) copied() (n int) {
	e.Helper()
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(e, err)
	for entry, err := range s.Scan(e.ctx, "t", percolator.All(), "c") {
		fixture.Must(e, err)
		fixture.WantValue(e, e.ctx, s, percolator.Cell{Table: "t", Row: entry.Cell.Row, Column: "copy"}, string(entry.Value))
		n++
	}
	return n
}
