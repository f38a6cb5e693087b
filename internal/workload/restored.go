package workload

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Restored is what was restored from an export, as one reader of the export's snapshot.
type Restored struct {
	w      *Workload
	rec    *history.Txn
	schema *percolator.Schema
	had    Growth
	mu     sync.Mutex
}

// Restored records that an export of the snapshot at ts, with a schema, was restored. had is what
// was finished before the snapshot was taken.
func (w *Workload) Restored(name string, ts tso.Timestamp, s *percolator.Schema, had Growth) *Restored {
	r := &Restored{w: w, rec: w.History.Begin(name, "restored"), schema: s, had: had}
	r.rec.StartedAt(ts)
	return r
}

// Read reads all that was restored, by a restore that began at began: the values of the snapshot,
// but for tables of which some may have expired since. complete tells of an index whether the
// restored one is.
func (r *Restored) Read(ctx context.Context, c *percolator.Client, began tso.Timestamp, complete func(index string) bool) error {
	return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for _, t := range r.schema.Tables {
			columns, recorded := columnsOf(t.Name)
			if !recorded || expired(t, s.StartTimestamp().Sub(began)) {
				continue
			}
			var es []history.Entry
			for e, err := range s.Scan(ctx, t.Name, percolator.Range{}, columns...) {
				if err != nil {
					return err
				}
				es = append(es, history.Entry{Cell: history.Cell(e.Cell), Value: e.Value})
			}
			r.rec.Scan(t.Name, "", "", columns, es)
			for _, ix := range t.Indexes {
				if !complete(t.Name+"."+ix.Name) || columns != nil && !slices.Contains(columns, ix.Column) {
					continue
				}
				if _, err := (Reader{Scanner: s, rec: r.rec}).scanIndex(ctx, index{t.Name, ix.Name, ix.Unique}, "", ""); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// expired reports whether values of the table live for less than a time.
func expired(t percolator.Table, after time.Duration) bool {
	within := func(ttl time.Duration) bool { return ttl > 0 && ttl <= after }
	return within(t.TTL) || slices.ContainsFunc(t.Columns, func(c percolator.ColumnSchema) bool { return within(c.TTL) })
}

// columnsOf are the columns of a table whose values are recorded, nil for all; recorded: there are
// any, as there are not where queues or deletions of ranges write.
func columnsOf(table string) (columns []string, recorded bool) {
	if strings.HasPrefix(table, cargo) {
		return cargoColumns, true
	}
	if columns, ok := annexColumns(table); ok {
		return columns, true
	}
	return nil, slices.Contains(Tables, table) || slices.Contains(more, table)
}

// Observers are those of the schema. They do nothing but record that they run: that they were due.
// Those of queues do not even that.
func (r *Restored) Observers() *observers.Registry {
	reg := observers.NewRegistry()
	var names []string
	for _, o := range allObservers() {
		if !slices.Contains(notifiable(r.schema, o.Table), o.Column) {
			continue
		}
		if told := o.Name != labeler || r.had&StateObserved != 0; told && !r.w.quietly(o.Table) {
			names = append(names, o.Name)
		}
		reg.Observe(o.Name, o.Table, o.Column, func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.rec.Due(o.Name, history.Cell(ch.Cell))
			return nil
		})
	}
	for _, t := range r.schema.Tables {
		for _, column := range notifiable(r.schema, t.Name) {
			if !slices.ContainsFunc(allObservers(), func(o history.Observer) bool { return o.Table == t.Name && o.Column == column }) {
				reg.Observe("queue of "+t.Name+" "+column, t.Name, column, func(context.Context, *percolator.Txn, observers.Change) error { return nil })
			}
		}
	}
	r.rec.Exported(names...)
	return reg
}

// notifiable is the columns of a table that may have notifications.
func notifiable(s *percolator.Schema, table string) []string {
	i := slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == table })
	if i < 0 {
		return nil
	}
	return slices.Concat(s.Tables[i].Observed, s.Tables[i].Weak)
}

// End ends the record.
func (r *Restored) End() { r.rec.End(history.Committed, 0) }
