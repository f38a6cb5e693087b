package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Restored is what was restored from an export, or repaired, as one reader of the snapshot.
type Restored struct {
	w      *Workload
	rec    *history.Txn
	at     tso.Timestamp
	schema *percolator.Schema
	had    Growth
	whole  Complete
	mu     sync.Mutex
}

// Complete tells of a table, or of an index by TABLE.INDEX, whether it holds all of a snapshot.
type Complete func(name string) bool

// Restored records that an export of the snapshot at ts, with a schema, was restored. had is what
// was finished before the snapshot was taken. Nothing is said of what is not complete.
func (w *Workload) Restored(name string, ts tso.Timestamp, s *percolator.Schema, had Growth, complete Complete) *Restored {
	r := &Restored{w: w, rec: w.History.Begin(name, "restored"), at: ts, schema: s, had: had, whole: complete}
	r.rec.StartedAt(ts)
	return r
}

// Read reads all that is complete: the values of the snapshot, which live from began on, but for
// tables of which some may have expired since.
func (r *Restored) Read(ctx context.Context, c *percolator.Client, began tso.Timestamp) error {
	return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error { return r.read(ctx, s, began) })
}

// ReadAt is Read of the snapshot itself, in which nothing has expired.
func (r *Restored) ReadAt(ctx context.Context, c *percolator.Client) error {
	return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error { return r.read(ctx, s, r.at) }, percolator.AsOfTimestamp(r.at))
}

func (r *Restored) read(ctx context.Context, s *percolator.Snapshot, began tso.Timestamp) error {
	for _, t := range r.schema.Tables {
		columns, recorded := columnsOf(t.Name)
		if !recorded || !r.whole(t.Name) || expired(t, s.StartTimestamp().Sub(began)) {
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
			if !r.whole(t.Name+"."+ix.Name) || columns != nil && !slices.Contains(columns, ix.Column) {
				continue
			}
			if _, err := (Reader{Scanner: s, rec: r.rec}).scanIndex(ctx, index{t.Name, ix.Name, ix.Unique}, "", ""); err != nil {
				return err
			}
		}
	}
	return nil
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
	var names []string
	for _, o := range r.told() {
		names = append(names, o.Name)
	}
	r.rec.Exported(names...)
	return Idle(r.schema, func(observer string, c percolator.Cell, _ tso.Timestamp) { r.Due(observer, c) })
}

// Due records that an observer was due for a cell.
func (r *Restored) Due(observer string, c percolator.Cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Due(observer, history.Cell(c))
}

// told are the observers who have heard of every change.
func (r *Restored) told() []history.Observer {
	return slices.DeleteFunc(allObservers(), func(o history.Observer) bool {
		return !slices.Contains(notifiable(r.schema, o.Table), o.Column) || !r.whole(o.Table) || o.Name == labeler && r.had&StateObserved == 0 || r.w.quietly(o.Table)
	})
}

// Idle are observers that do nothing but tell that they run, those of queues aside, in transactions
// that began at some time.
func Idle(s *percolator.Schema, ran func(observer string, c percolator.Cell, began tso.Timestamp)) *observers.Registry {
	reg := observers.NewRegistry()
	for _, o := range allObservers() {
		if !slices.Contains(notifiable(s, o.Table), o.Column) {
			continue
		}
		reg.Observe(o.Name, o.Table, o.Column, func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			ran(o.Name, ch.Cell, tx.StartTimestamp())
			return nil
		})
	}
	for _, t := range s.Tables {
		for _, column := range notifiable(s, t.Name) {
			if !slices.ContainsFunc(allObservers(), func(o history.Observer) bool { return o.Table == t.Name && o.Column == column }) {
				reg.Observe("queue of "+t.Name+" "+column, t.Name, column, func(context.Context, *percolator.Txn, observers.Change) error { return nil })
			}
		}
	}
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

// Stray is some cells, of several tables, in which a transaction that must not commit would show.
func Stray(r *rand.Rand) []percolator.Cell {
	cells := []percolator.Cell{account(r.IntN(accounts)), receiptCell(r.Int64N(keptBack)), node(nodeName(r.IntN(nodes))), cell(lists, fmt.Sprintf("stray%d", r.IntN(activeLists)), "items")}
	r.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	return cells[:1+r.IntN(len(cells))]
}
