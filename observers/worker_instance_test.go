package observers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// metaRow is percolator_meta's row as it is now, and stores it so again.
func (e *env) metaRow() (restore func()) {
	e.Helper()
	table := e.Store().Open(model.MetaTable)
	row, err := table.ReadRow(e.ctx, "meta")
	fixture.Must(e, err)
	return func() {
		e.Helper()
		m := bigtable.NewMutation()
		m.DeleteRow()
		for family, items := range row {
			for _, item := range items {
				m.Set(family, strings.TrimPrefix(item.Column, family+":"), item.Timestamp, item.Value)
			}
		}
		fixture.Must(e, table.Apply(e.ctx, "meta", m))
	}
}

// A worker below which the instance was made anew ends with an error that says so: nothing that it
// knows is true any more. One whose look finds the schema missing, or an older one, looks again
// first.
func TestWorkerEndsWithItsInstance(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"missing", "older"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				e, r, ran := newEnv(t, table()), observers.NewRegistry(), make(chan string, 2)
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				e.ctx = ctx
				r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
					ran <- ch.Cell.Row
					return nil
				})
				gone := e.metaRow()
				if name == "missing" {
					gone = func() {
						m := bigtable.NewMutation()
						m.DeleteRow()
						fixture.Must(t, e.Store().Open(model.MetaTable).Apply(e.ctx, "meta", m))
					}
				}
				grown := &percolator.Schema{Tables: []percolator.Table{table(), {Name: "more"}}}
				fixture.Must(t, percolator.CreateSchema(e.ctx, e.Project, e.Instance, grown, e.Options()...))
				time.Sleep(time.Minute) // the client has learned of it
				back := e.metaRow()

				w, err := observers.NewWorker(e.client, r, observers.Config{DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
				fixture.Must(t, err)
				ended := make(chan error, 1)
				go func() { ended <- w.Run(e.ctx) }()
				var looks atomic.Int64
				e.FaultsOf(e.client).Handle(func(r percolatortest.Request) percolatortest.Action {
					if r.Table == model.MetaTable && r.Row == "meta" {
						looks.Add(1)
					}
					return percolatortest.Pass
				})
				gone()
				for seen := looks.Load(); looks.Load() == seen; {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(100 * time.Millisecond) // it has its answer
				back()
				time.Sleep(5 * time.Minute) // many looks
				e.set(e.client, "r", "in", "1")
				select {
				case err := <-ended:
					t.Fatalf("it ended after one look: %v", err)
				case <-ran:
				}

				gone()
				if err := <-ended; !errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), "the instance is not the one") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
