package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	// fateWindow is in how long most transactions commit. Primaries whose transactions began within
	// it are read together: of each the records of that time come with it.
	fateWindow = 10 * time.Second
	// fatesAtOnce is how many primaries are read alone at once.
	fatesAtOnce = 8
	// leastSpan is the smallest piece of a backlog.
	leastSpan = time.Millisecond
)

// reading is steps 3 to 5 of a round.
type reading struct {
	*watcher
	now       tso.Timestamp // given before anything was read
	target    tso.Timestamp // at or below now
	watermark tso.Timestamp // of the meta row, read before
	rows      []readRow
	asked     []*txn        // whose fate is to be asked for, again or for the first time
	first     map[*txn]bool // that were not open before this round
	blocked   tso.Timestamp // the least start timestamp of a lock on a primary
}

// readRow is a row of a stream that this round has read.
type readRow struct {
	place
	newest tso.Timestamp // start timestamp
}

func (r *reading) read(ctx context.Context) error {
	if _, err := r.e.Meta.CheckRepairing(ctx); err != nil { // nothing is rolled back beside a repair
		return err
	}
	r.asked = slices.Collect(maps.Values(r.open))
	if err := r.fates(ctx); err != nil {
		return err
	}
	return r.tail.Read(ctx, r.e.Store, r.take, func() error {
		if err := r.fates(ctx); err != nil {
			return err
		}
		r.shorten()
		return nil
	})
}

// take takes a row of a stream, unless an entry of it is above the target.
func (r *reading) take(id journal.StreamID, row journal.StreamRow) bool {
	at := readRow{place: place{id, row.Seq}}
	again := map[tso.Timestamp]bool{} // read before, and put back
	for _, e := range row.Entries {
		at.newest = max(at.newest, e.StartTS)
		if t := r.open[e.StartTS]; t != nil && slices.Contains(t.at, at.place) {
			again[e.StartTS] = true
		}
	}
	if at.newest > r.target {
		return false
	}
	r.rows = append(r.rows, at)
	for _, e := range row.Entries {
		if !again[e.StartTS] {
			r.entry(e, at.place)
		}
	}
	return true
}

// entry notes what an entry says of watched tables. There may be several of one transaction, parts
// or copies.
func (r *reading) entry(e model.JournalEntry, at place) {
	var rows []layout.RowID
	for _, row := range e.Rows {
		if _, watched := r.columns[row.Table]; watched {
			rows = append(rows, layout.RowID{Table: row.Table, Key: row.Key})
		}
	}
	if len(rows) == 0 || e.Primary.Table == "" { // what has no primary writes nothing
		return
	}
	t := r.open[e.StartTS]
	if t == nil {
		t = &txn{start: e.StartTS, primary: e.Primary}
		r.open[e.StartTS], r.first[t] = t, true
		r.asked = append(r.asked, t)
	}
	t.rows, t.at = append(t.rows, rows...), append(t.at, at)
	r.names += len(rows)
}

// shorten aims at less when what is open does not fit: the next rounds read the rest of it again. A
// transaction always fits by itself, and what was open before this round stays.
func (r *reading) shorten() {
	maps.DeleteFunc(r.first, func(t *txn, _ bool) bool { return r.open[t.start] != t })
	for r.names > r.cfg.names && len(r.first) > 0 && len(r.open) > 1 && r.target.Sub(r.position) > leastSpan {
		r.span = r.target.Sub(r.position) / 2
		r.target = r.position.Add(r.span)
		for t := range r.first {
			if t.start > r.target {
				r.drop(t)
				delete(r.first, t)
			}
		}
		for _, row := range r.rows {
			if row.newest > r.target {
				r.tail.Back(row.stream, row.seq)
			}
		}
	}
}

// drop forgets a transaction.
func (w *watcher) drop(t *txn) {
	delete(w.open, t.start)
	w.names -= len(t.rows)
}

// fates asks for the fate of transactions that may have committed at or below the target.
func (r *reading) fates(ctx context.Context) error {
	byTable := map[string][]*txn{}
	for _, t := range r.asked {
		if t.commit == 0 && t.start <= r.target {
			byTable[t.primary.Table] = append(byTable[t.primary.Table], t)
		}
	}
	r.asked = nil
	var alone []*txn
	for table, list := range byTable {
		known, err := r.e.Meta.HasTable(ctx, table)
		if err == nil && !known {
			err = r.dropped(ctx, list)
		}
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		slices.SortFunc(list, func(a, b *txn) int { return int(a.start - b.start) })
		for len(list) > 0 {
			n := 1
			for n < len(list) && list[n].start.Sub(list[0].start) < fateWindow {
				n++
			}
			rest, err := r.together(ctx, table, list[:n])
			if err != nil {
				return err
			}
			alone, list = append(alone, rest...), list[n:]
		}
	}
	return r.alone(ctx, alone)
}

// together reads the primaries of transactions that began at about the same time. It returns those
// of which it has learned nothing for sure.
func (r *reading) together(ctx context.Context, table string, list []*txn) (rest []*txn, err error) {
	to := min(r.target, list[len(list)-1].start.Add(fateWindow))
	q := store.ChangedRecords(nil, list[0].start, to)
	keys := map[string]bool{}
	for _, t := range list {
		keys[t.primary.Row] = true
	}
	rows := map[string]layout.RowVersions{}
	for chunk := range store.KeyChunks(slices.Sorted(maps.Keys(keys))) {
		if err := r.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, q, 0, func(row layout.Row) bool {
			rows[row.Key] = layout.DecodeRow(table, row)
			return true
		}); err != nil {
			return nil, err
		}
	}
	for _, t := range list {
		status, err := locks.StatusOf(t.primary, t.start, rows[t.primary.Row][t.primary.Column])
		if err != nil {
			return nil, err
		}
		passed := status.State == locks.TxnUnknown && r.passed(t)
		switch {
		case r.learn(t, status):
		case passed && to == r.now:
			r.drop(t) // it was decided before now, and would be seen
		case passed || to < r.target || t.due(status.State == locks.TxnLocked):
			rest = append(rest, t)
		}
	}
	return rest, nil
}

// learn notes what the primary says of a transaction. It reports whether that is final.
func (r *reading) learn(t *txn, s locks.TxnStatus) bool {
	switch s.State {
	case locks.TxnCommitted:
		if t.commit = s.CommitTS; t.commit <= r.position {
			r.drop(t)
		}
		return true
	case locks.TxnRolledBack:
		r.drop(t)
		return true
	case locks.TxnLocked:
		r.blocked = min(r.blocked, t.start)
	}
	return false
}

// passed reports whether the low positions of its streams, read before this round's timestamp was
// given, have passed a transaction: it was decided by then, or stands above as well.
func (r *reading) passed(t *txn) bool {
	return !slices.ContainsFunc(t.at, func(p place) bool { return p.seq >= r.streams[p.stream].Low })
}

// due reports whether it is time to look whether a transaction is dead: not when it is first seen,
// and then ever more rarely.
func (t *txn) due(locked bool) bool {
	now := time.Now()
	if t.looks > 0 && now.Before(t.look) {
		return false
	}
	rest := fateWindow << min(t.looks, 3)
	if locked {
		rest = minPause << min(t.looks, 5)
	}
	t.looks++
	t.look = now.Add(rest)
	return t.looks > 1
}

// dropped asks for the fate of transactions whose primaries were in a table that was dropped.
// Before the schema forgot it, every lock that depends on them was resolved (I26): their rows tell,
// also of what has committed since this round's timestamp was given.
func (r *reading) dropped(ctx context.Context, list []*txn) error {
	for _, t := range list {
		keys := map[string][]string{}
		for _, row := range t.rows {
			keys[row.Table] = append(keys[row.Table], row.Key)
		}
		for table, of := range keys {
			slices.Sort(of)
			for chunk := range store.KeyChunks(slices.Compact(of)) {
				err := r.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, store.RecordsFrom(t.start+1, tso.MaxTimestamp), 0, func(row layout.Row) bool {
					for _, v := range layout.DecodeRow(table, row) {
						for _, w := range v.Writes {
							if w.StartTS == t.start {
								t.commit = w.CommitTS
							}
						}
					}
					return t.commit == 0
				})
				if err != nil {
					return err
				}
			}
		}
		if t.commit <= r.position { // or it has not committed
			r.drop(t)
		}
	}
	return nil
}

// alone asks for the fate of each transaction by itself, and rolls back those that are dead.
func (r *reading) alone(ctx context.Context, list []*txn) error {
	if len(list) == 0 {
		return nil
	}
	now, err := r.e.Clock.Next(ctx)
	if err != nil {
		return err
	}
	states := make([]locks.TxnStatus, len(list))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(fatesAtOnce)
	for i, t := range list {
		g.Go(func() (err error) {
			session := r.streams[t.at[len(t.at)-1].stream].Session
			it := settle.Item{JournalEntry: model.JournalEntry{StartTS: t.start, Primary: t.primary}, Session: session}
			if session != "" && !r.e.Locks.SessionEnded(gctx, session) {
				it.Owner = settle.OwnerElsewhere
			}
			states[i], err = r.e.Looker.Status(gctx, &it, now)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, t := range list {
		s := states[i]
		// The transaction is alive, and has no trace on its primary.
		if s.State == locks.TxnLocked && s.Lock.StartTS == 0 {
			s.State = locks.TxnUnknown
		}
		r.learn(t, s)
		// It could no longer commit when the primary was read.
		if s.State == locks.TxnUnknown && (r.passed(t) || t.start <= r.watermark) {
			r.drop(t)
		}
	}
	return nil
}
