package observers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A worker with observers of what is dropped goes on: it says so, runs for none of it any more, and
// for everything else as before. It becomes idle, and no notification is left.
func TestWorkerBesideADrop(t *testing.T) {
	t.Parallel()
	eachFinding(t, "", func(t *testing.T, by finding) {
		percolatortest.Bubble(t, func(t *testing.T) { workBesideADrop(t, by) })
	})
}

// droppedSchema has a table of which two columns are dropped, and one that is.
func droppedSchema(by finding, dropped bool) *percolator.Schema {
	s := &percolator.Schema{DisableJournal: by == byScans, Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second},
		Tables: []percolator.Table{
			{Name: "t", Observed: []string{"a", "kept"}, Weak: []string{"poke"}, Columns: []percolator.ColumnSchema{{Name: "a"}, {Name: "kept"}, {Name: "poke"}}},
			{Name: "gone", Observed: []string{"a"}},
		}}
	if dropped {
		s.Tables = []percolator.Table{{Name: "t", Observed: []string{"kept"}, Columns: []percolator.ColumnSchema{{Name: "kept"}}}}
	}
	return s
}

func workBesideADrop(t *testing.T, by finding) {
	short := percolatortest.Configure(func(c *percolator.Config) { c.Retention = time.Minute })
	pe := percolatortest.New(t, droppedSchema(by, false), short)
	e := &env{t, pe, t.Context(), pe.Client, by}
	var runs, kept atomic.Int64
	var ran sync.Map // columns that the worker had a cell of before the drop
	fails := func(_ context.Context, _ *percolator.Txn, c observers.Change) error {
		runs.Add(1)
		ran.Store(observers.Column{Table: c.Cell.Table, Name: c.Cell.Column}, true)
		return errors.New("not yet")
	}
	r := observers.NewRegistry()
	r.Observe("first", "t", "a", fails)
	r.Observe("second", "t", "a", fails)
	r.Observe("poked", "t", "poke", fails)
	r.Observe("gone", "gone", "a", fails)
	r.Observe("kept", "t", "kept", func(context.Context, *percolator.Txn, observers.Change) error { kept.Add(1); return nil })
	var log bytes.Buffer
	w, stop := e.start(e.NewClient(short), r, observers.Config{Concurrency: 4, DisableCollection: true, SweepInterval: -1,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
		for _, row := range strings.Fields("1 2 3 4 5 6 7 8 9") {
			err = errors.Join(err, tx.Set(cell(row, "a"), nil), tx.Notify(cell(row, "poke")), tx.Set(percolator.Cell{Table: "gone", Row: row, Column: "a"}, nil))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e.until("the observers of each column are called", func() bool {
		columns := 0
		ran.Range(func(any, any) bool { columns++; return true })
		return columns == 3
	})

	if _, err := admin.New(e.NewClient(short)).DropFromSchema(e.ctx, droppedSchema(by, true), admin.DropOptions{ClientOptions: e.Options()}); err != nil {
		t.Fatal(err)
	}
	before := runs.Load()
	for _, row := range strings.Fields("1 2 3 4 5 6 7 8 9") {
		started := time.Now()
		e.set(e.client, row, "kept", "v")
		e.until("another column is observed", func() bool { return kept.Load() > 0 })
		if kept.Store(0); time.Since(started) > 5*time.Second {
			t.Errorf("another column waited for %v", time.Since(started))
		}
	}
	limit, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	if err := w.WaitIdle(limit); err != nil {
		t.Errorf("what was dropped keeps the worker: %v", err)
	}
	if n := runs.Load() - before; n > 0 {
		t.Errorf("%d runs for what was dropped", n)
	}
	if by == byJournal {
		for range 2 {
			time.Sleep(65 * time.Second)
			fixture.Collect(t, e.ctx, e.client)
		}
		if left := e.pending(); len(left) > 0 {
			t.Errorf("notifications are left in %v", left)
		}
	}
	stop()
	if n := strings.Count(log.String(), "is no longer observed"); n != 3 {
		t.Errorf("of three columns the worker says %d times that it runs for them no more:\n%s", n, &log)
	}
}
