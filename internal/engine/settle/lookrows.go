package settle

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// readRows reads locks and notifications of all rows of the entries that are decided. Those that
// name a row which cannot be read are for later.
func (l *Looker) readRows(ctx context.Context, checks []*check, tables map[string]bool) (rows map[layout.RowID]model.Pending, failed error) {
	keys := map[string]map[string]bool{}
	for _, c := range checks {
		if c.state == undecided {
			continue
		}
		for _, r := range c.Rows {
			if !tables[r.Table] {
				continue // the schema has lost it, with everything in it
			}
			if l.Meta.IsImporting(r.Table) {
				c.leave(fenced)
				break // its notifications are for when the import has ended
			}
			if keys[r.Table] == nil {
				keys[r.Table] = map[string]bool{}
			}
			keys[r.Table][r.Key] = true
		}
	}
	var chunks []chunk
	for table, names := range keys {
		for keys := range store.KeyChunks(slices.Sorted(maps.Keys(names))) {
			chunks = append(chunks, chunk{table, keys})
		}
	}
	ctx, cancel := l.leaving(ctx, 3)
	defer cancel()
	read := reading{Looker: l, upTo: highest(checks), rows: map[layout.RowID]model.Pending{}, unread: map[layout.RowID]bool{}}
	failed = several(chunks, func(c chunk) error { return read.whole(ctx, c) })
	for _, c := range checks {
		if slices.ContainsFunc(c.Rows, func(r model.JournalName) bool { return read.unread[layout.RowID{Table: r.Table, Key: r.Key}] }) {
			c.leave(unread)
		}
	}
	return read.rows, failed
}

// chunk is some rows of a table, which one request reads.
type chunk struct {
	table string
	keys  []string
}

// reading reads the rows of a look. It is safe for concurrent use.
type reading struct {
	*Looker
	upTo tso.Timestamp

	mu     sync.Mutex
	rows   map[layout.RowID]model.Pending
	unread map[layout.RowID]bool
}

// whole reads a chunk. If that takes too long, it reads smaller ones: one row that does not answer
// leaves few others unread.
func (r *reading) whole(ctx context.Context, c chunk) error {
	err := r.chunk(ctx, c)
	if err == nil || !retry.Ambiguous(err) || ctx.Err() != nil || len(c.keys) == 1 {
		return r.failed(c, err)
	}
	var smaller []chunk
	for keys := range slices.Chunk(c.keys, (len(c.keys)-1)/lookAtOnce+1) {
		smaller = append(smaller, chunk{c.table, keys})
	}
	return several(smaller, func(c chunk) error { return r.failed(c, r.chunk(ctx, c)) })
}

func (r *reading) chunk(ctx context.Context, c chunk) error {
	ctx, cancel := context.WithTimeout(store.InBackground(ctx), r.tenth())
	defer cancel()
	r.Store.Count.RowsLooked.Add(int64(len(c.keys)))
	return r.Store.ReadRows(ctx, c.table, store.Rows{Keys: c.keys}, store.PendingUpTo(r.upTo, lookVersions), 0, func(row layout.Row) bool {
		p := layout.DecodePending(c.table, row)
		r.Store.Count.Undecodable.Add(int64(len(p.Corrupt)))
		r.mu.Lock()
		defer r.mu.Unlock()
		id := layout.RowID{Table: c.table, Key: row.Key}
		r.rows[id] = p
		if len(p.Locks) < len(row.Of(layout.LockFamily)) {
			r.unread[id] = true // one cannot be decoded
		}
		return true
	})
}

// failed notes the rows of a chunk that was not read, if err says so.
func (r *reading) failed(c chunk, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; err != nil && i < len(c.keys); i++ {
		r.unread[layout.RowID{Table: c.table, Key: c.keys[i]}] = true
	}
	return err
}

// forget erases the observer states beside which no notification stands, at or below theirs: their
// cells were handled after all (I19). Of the rows the notifications up to upTo were read.
func (l *Looker) forget(ctx context.Context, rows map[layout.RowID]model.Pending, upTo tso.Timestamp) {
	var done []model.ObserverState
	for _, p := range rows {
		for _, s := range p.States {
			if s.Through <= upTo && l.observed(s.Cell) && !p.Notifies(s.Cell, s.Through, lookVersions) {
				done = append(done, s)
			}
		}
	}
	if l.Forget == nil || len(done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.tenth())
	defer cancel()
	if err := l.Forget(ctx, done...); err != nil {
		l.Config.Logger.Debug("journal: observer states were not erased", "err", err)
	}
}

// learnColumns reads the schema again if one of rows, which were read before, is notified in a
// column that the cached schema does not observe: it may have become so.
func (l *Looker) learnColumns(ctx context.Context, rows map[layout.RowID]model.Pending) error {
	for _, p := range rows {
		if slices.ContainsFunc(p.Notified, func(n model.Notification) bool { return !l.observed(n.Cell) }) {
			_, err := l.Meta.Refresh(ctx)
			return err
		}
	}
	return nil
}

// observed reports whether the stored schema has observers for the cell.
func (l *Looker) observed(c model.Cell) bool {
	info, ok := l.Meta.Catalog.Load().UserTable(c.Table)
	return ok && (info.IsObserved[c.Column] || info.IsWeak[c.Column])
}
