package watch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// groupRows is about how many rows are read for one or more batches.
const groupRows = store.RequestRows

// emit hands out what transactions have written that committed up to the frontier, and moves the
// position behind each of them. n counts changes.
func (w *watcher) emit(ctx context.Context, frontier tso.Timestamp, hand func(Batch) error) (n int, err error) {
	var list []*txn
	for _, t := range w.open {
		switch {
		case t.commit == 0 || t.commit > frontier:
		case t.commit <= w.position:
			w.drop(t)
		default:
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *txn) int { return cmp.Compare(a.commit, b.commit) })
	for len(list) > 0 {
		take := groupOf(list)
		changes, err := w.changes(ctx, list[:take])
		if err != nil {
			return n, err
		}
		if err := w.batches(ctx, changes, hand); err != nil {
			return n, err
		}
		w.position = list[take-1].commit
		for _, t := range list[:take] {
			w.drop(t)
		}
		n, list = n+len(changes), list[take:]
	}
	return n, nil
}

// groupOf is how many transactions are read together: those that began at about the same time, as
// what else was written to their rows since the first began comes with it.
func groupOf(list []*txn) (n int) {
	first := list[0].start
	for rows := 0; n < len(list); n++ {
		rows += len(list[n].rows)
		first = min(first, list[n].start)
		if n > 0 && (rows > groupRows || list[n].commit.Sub(first) > fateWindow) {
			break
		}
	}
	return n
}

// change is a change whose value may not have been read.
type change struct {
	Change
	unread bool
}

// changes reads what transactions, in the order of their commits, have written.
func (w *watcher) changes(ctx context.Context, list []*txn) (all []change, err error) {
	of := map[tso.Timestamp]*txn{}
	keys := map[string]map[string]bool{}
	from, to := list[0].start, list[len(list)-1].commit
	for _, t := range list {
		of[t.start] = t
		from = min(from, t.start)
		for _, r := range t.rows {
			if keys[r.Table] == nil {
				keys[r.Table] = map[string]bool{}
			}
			keys[r.Table][r.Key] = true
		}
	}
	bytes := 0
	var bad error
	for table, names := range keys {
		for chunk := range store.KeyChunks(slices.Sorted(maps.Keys(names))) {
			for len(chunk) > 0 {
				values, read := bytes < MaxBatchBytes, 0
				err := w.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, w.query(table, from, to, values), 0, func(row layout.Row) bool {
					list, werr := w.written(table, row, of, values)
					all, bad = append(all, list...), errors.Join(bad, werr)
					bytes += row.Size()
					read, _ = slices.BinarySearch(chunk, row.Key+"\x00")
					return !values || bytes < MaxBatchBytes
				})
				if err = errors.Join(err, bad); err != nil {
					return nil, err
				}
				if !values || bytes < MaxBatchBytes {
					read = len(chunk)
				}
				chunk = chunk[read:]
			}
		}
	}
	slices.SortFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), strings.Compare(a.Cell.Table, b.Cell.Table), strings.Compare(a.Cell.Row, b.Cell.Row), strings.Compare(a.Cell.Column, b.Cell.Column))
	})
	return all, nil
}

// query asks for the watched columns of a table, or for all of them where their names would make a
// filter too long.
func (w *watcher) query(table string, from, to tso.Timestamp, values bool) store.Query {
	columns, size := w.columns[table], 0
	for _, c := range columns {
		size += store.PatternBytes(c)
	}
	if size > model.MaxFilterBytes {
		columns = nil
	}
	if values {
		return store.Changed(columns, from, to)
	}
	return store.ChangedRecords(columns, from, to)
}

// written is what transactions have written to the watched columns of a row. Until phase two has
// ended, the lock stands for the record.
func (w *watcher) written(table string, row layout.Row, of map[tso.Timestamp]*txn, values bool) (list []change, err error) {
	for column, v := range layout.DecodeRow(table, row) {
		if !w.watches(table, column) {
			continue
		}
		if v.Corrupt != nil {
			return nil, v.Corrupt
		}
		add := func(start tso.Timestamp, kind layout.Kind, commit tso.Timestamp) {
			t := of[start]
			if t == nil || !kind.Changes() || commit != 0 && commit != t.commit {
				return
			}
			c := change{Change: Change{Cell: model.Cell{Table: table, Row: row.Key, Column: column}, CommitTS: t.commit, StartTS: start, Deleted: kind == layout.KindDelete}}
			if !c.Deleted {
				at := slices.IndexFunc(v.Data, func(d layout.DataVersion) bool { return d.StartTS == start })
				if c.unread = at < 0; !c.unread {
					c.Value = v.Data[at].Value
				} else if values {
					err = catalog.CellError(percolator.ErrCorrupt, c.Cell, "the value of transaction %d is missing", start)
				}
			}
			list = append(list, c)
		}
		for _, r := range v.Writes {
			add(r.StartTS, r.Kind, r.CommitTS)
		}
		for _, l := range v.Locks {
			add(l.StartTS, l.Kind, 0)
		}
	}
	return list, err
}

func (w *watcher) watches(table, column string) bool {
	columns := w.columns[table]
	return len(columns) == 0 && !strings.HasPrefix(column, layout.Reserved) || slices.Contains(columns, column)
}

// batches hands out changes, but for those that the position has already. What was read before
// counts only once it is known that the collector has not come by.
func (w *watcher) batches(ctx context.Context, changes []change, hand func(Batch) error) error {
	if first, n := committedAt(changes, w.within.commit); n > 0 {
		changes = slices.Delete(changes, first, first+min(n, w.within.n))
	}
	for len(changes) > 0 {
		var b Batch
		for bytes := 0; len(b.Changes) < min(len(changes), MaxBatchChanges) && bytes < MaxBatchBytes; {
			c := &changes[len(b.Changes)]
			if c.unread {
				if err := w.value(ctx, c); err != nil {
					return err
				}
			}
			b.Changes = append(b.Changes, c.Change)
			bytes += len(c.Value)
		}
		if err := w.check(ctx); err != nil {
			return err
		}
		last := b.Changes[len(b.Changes)-1].CommitTS
		if changes = changes[len(b.Changes):]; len(changes) > 0 && changes[0].CommitTS == last {
			last = w.before(b, last)
		} else if last >= w.within.commit {
			w.within = within{}
		}
		w.position = max(w.position, last)
		b.Position = w.at(w.position)
		if err := hand(b); err != nil {
			return err
		}
	}
	return nil
}

// committedAt finds the changes of one transaction among some in the order of commits.
func committedAt(changes []change, commit tso.Timestamp) (first, n int) {
	by := func(c change, ts tso.Timestamp) int { return cmp.Compare(c.CommitTS, ts) }
	first, _ = slices.BinarySearchFunc(changes, commit, by)
	next, _ := slices.BinarySearchFunc(changes, commit+1, by)
	return first, next - first
}

// before is how far the consumer of a batch has come that ends within a transaction. It notes how
// much of that was handed out.
func (w *watcher) before(b Batch, commit tso.Timestamp) tso.Timestamp {
	if w.within.commit != commit {
		w.within = within{commit: commit}
	}
	for _, c := range slices.Backward(b.Changes) {
		if c.CommitTS < commit {
			return c.CommitTS
		}
		w.within.n++
	}
	return w.position
}

// value reads the value of one change.
func (w *watcher) value(ctx context.Context, c *change) error {
	row, err := w.e.Store.ReadRow(ctx, c.Cell.Table, c.Cell.Row, store.Data(store.Version{Column: c.Cell.Column, StartTS: c.StartTS}))
	if err != nil {
		return err
	}
	items := row.Of(layout.DataFamily)
	if len(items) == 0 {
		if err := w.check(ctx); err != nil { // it may have been collected
			return err
		}
		return catalog.CellError(percolator.ErrCorrupt, c.Cell, "the value of transaction %d is missing", c.StartTS)
	}
	c.Value, c.unread = items[0].Value, false
	return nil
}
