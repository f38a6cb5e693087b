package gc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// rowEraser erases the garbage of rows that the journal names, and remembers what it found there.
type rowEraser struct {
	*eraser
	asked   tso.Timestamp // of J6, from after the drain
	catalog *catalog.Catalog
	rows    findings
	unread  unread // of the batch
	did     *tally
}

func newRowEraser(x *eraser, asked tso.Timestamp, rows findings, did *tally) *rowEraser {
	return &rowEraser{eraser: x, asked: asked, catalog: x.e.Meta.Catalog.Load(), rows: rows, did: did}
}

// findings is what a collector has read in a cycle: at most rememberedRows before a batch.
type findings map[layout.RowID]finding

// finding is what a row holds of the entries that name it (J7). That of a row which does not exist
// is zero.
type finding struct {
	kept keptEntries
	of   []tso.Timestamp // transactions that have a lock there, or a record above the watermark
	live []expiring      // what a snapshot at the watermark sees, and later ones do not
}

// keptEntries is which of the entries that name a row have to stay for it. Each value keeps more
// than those before it.
type keptEntries uint8

const (
	// ownEntries: those of the transactions in finding.of.
	ownEntries keptEntries = iota
	// weakEntries: those that notify the row weakly as well, as it holds a notification from before
	// the drain had ended: it may be theirs.
	weakEntries
	// allEntries: all, as something is left to a later cycle: a notification at or below the
	// watermark, a trace, garbage that could not be erased, or what cannot be decoded.
	allEntries
)

// keep notes that entries have to stay.
func (f *finding) keep(which keptEntries) { f.kept = max(f.kept, which) }

// keeps reports whether the entry of a transaction has to stay for the row.
func (f finding) keeps(startTS tso.Timestamp, weak bool) bool {
	return f.kept == allEntries || weak && f.kept == weakEntries || slices.Contains(f.of, startTS)
}

// expiring is a value that expires above the watermark.
type expiring struct{ startTS, at tso.Timestamp }

// eraseNamed erases the garbage of the rows that some entries name, unless they are remembered.
func (x *rowEraser) eraseNamed(ctx context.Context, rows []journal.StreamRow) error {
	if len(x.rows) > rememberedRows {
		clear(x.rows)
	}
	if err := x.eraseUnread(ctx, rows); err != nil {
		return err
	}
	for table, keys := range named(rows, x.watermark, x.catalog, x.skips) {
		for chunk := range store.KeyChunks(keys) {
			for len(chunk) > 0 {
				n, err := x.eraseSome(ctx, table, chunk)
				if err != nil {
					return err
				}
				chunk = chunk[n:]
			}
		}
	}
	return nil
}

// eraseSome erases the garbage of the first rows of keys, in order, and returns how many it has
// dealt with: those that have few cells, or one.
func (x *rowEraser) eraseSome(ctx context.Context, table string, keys []string) (n int, err error) {
	if err := WaitLeased(ctx, x.cfg.Lease, x.delay(len(keys)), x.keep); err != nil {
		return 0, err
	}
	var page []layout.Row
	cells := 0
	err = x.e.Store.ReadRows(ctx, table, store.Rows{Keys: keys}, store.History(), 0, func(row layout.Row) bool {
		page = append(page, row)
		cells += len(row.Items)
		return cells < collectCells
	})
	if err != nil {
		return 0, err
	}
	if n = len(keys); cells >= collectCells {
		n, _ = slices.BinarySearch(keys, page[len(page)-1].Key+"\x00")
	}
	for _, key := range keys[:n] {
		x.rows[layout.RowID{Table: table, Key: key}] = finding{kept: ownEntries}
	}
	if page, err = x.resolveStrays(ctx, table, page); err != nil {
		return 0, err
	}
	if err := x.eraseRows(ctx, table, page); err != nil {
		return 0, err
	}
	return n, x.keep(ctx)
}

// resolveStrays resolves the locks at or below the watermark that rows hold, and reads these again.
// Only settled entries led to them before the watermark was published (J12): the prewrite of a
// transaction that was rolled back came late, or it had no entry. Left alone, such a lock would
// postpone the garbage of its cell for ever. One that cannot be judged does so.
func (x *rowEraser) resolveStrays(ctx context.Context, table string, page []layout.Row) ([]layout.Row, error) {
	locked := slices.DeleteFunc(slices.Clone(page), func(row layout.Row) bool {
		return !slices.ContainsFunc(row.Of(layout.LockFamily), func(it layout.Item) bool {
			ts, err := layout.FromCell(it.Timestamp)
			return err == nil && ts <= x.watermark
		})
	})
	if len(locked) == 0 {
		return page, nil
	}
	keys := ordered.Map(locked, func(row layout.Row) string { return row.Key })
	again := map[string]layout.Row{}
	err := WhileLeased(ctx, x.cfg.Lease, x.keep, func(ctx context.Context) error {
		var resolved atomic.Int64
		held, _ := locksOf(table, locked) // what cannot be decoded is counted, and left
		err := eachLock(ctx, held, &resolved, func(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
			if l.StartTS > x.watermark {
				return nil
			}
			err := x.e.Locks.ResolveBelowWatermark(ctx, cell, l)
			if errors.Is(err, model.ErrCorrupt) {
				x.e.Store.Warn(x.e.Config.Logger, "collection: a lock cannot be judged, and keeps what its cell holds", err)
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		return x.e.Store.ReadRows(ctx, table, store.Rows{Keys: keys}, store.History(), 0, func(row layout.Row) bool {
			again[row.Key] = row
			return true
		})
	})
	if err != nil {
		return nil, err
	}
	var out []layout.Row
	for _, row := range page {
		if slices.Contains(keys, row.Key) {
			row = again[row.Key]
		}
		if row.Key != "" { // else nothing of it is left
			out = append(out, row)
		}
	}
	return out, nil
}

// eraseRows erases the garbage of rows, and notes what they hold.
func (x *rowEraser) eraseRows(ctx context.Context, table string, page []layout.Row) error {
	info := x.catalog.Tables[table]
	var strays []store.RowMutation
	for _, row := range page {
		p := layout.DecodePending(table, row)
		x.check(layout.RowID{Table: table, Key: row.Key}, layout.DecodeRow(table, row))
		x.rows[layout.RowID{Table: table, Key: row.Key}] = x.find(table, info, row, p)
		strays = append(strays, stray(x.e.Meta.Catalog.Load().Tables[table], p, x.watermark)...)
	}
	var did erased
	var mu sync.Mutex
	did.left = func(key string) {
		mu.Lock()
		defer mu.Unlock()
		at := layout.RowID{Table: table, Key: key}
		f := x.rows[at]
		f.keep(allEntries)
		x.rows[at] = f
	}
	err := x.page(ctx, info, page, &did)
	if err == nil {
		err = x.eraseAll(ctx, strays)
	}
	x.did.add(did.tally(len(page)))
	return err
}

// find says what a row holds of entries, and dispatches notifications that no worker may know of.
func (x *rowEraser) find(table string, info *catalog.TableInfo, row layout.Row, p model.Pending) (f finding) {
	if len(p.Corrupt) > 0 {
		f.keep(allEntries)
	}
	for col, v := range layout.DecodeRow(table, row) {
		if v.Corrupt != nil {
			f.keep(allEntries)
		}
		// Where a later put or delete is above the watermark, its entry leads here once more.
		if b := base(v, x.watermark); b.Expires > x.watermark && b == base(v, tso.MaxTimestamp) {
			f.live = append(f.live, expiring{b.StartTS, b.Expires})
		}
		for _, l := range v.Locks {
			f.of = append(f.of, l.StartTS)
		}
		for _, w := range v.Writes {
			switch {
			case w.CommitTS <= x.watermark:
			case layout.IsTrace(col):
				f.keep(allEntries) // for I21, until it can be erased
			case w.StartTS <= x.watermark:
				f.of = append(f.of, w.StartTS)
			}
		}
	}
	notified, overdue := x.dispatch(info, p)
	if notified > 0 {
		f.keep(weakEntries)
	}
	if overdue > 0 {
		f.keep(allEntries)
	}
	return f
}

// dispatch dispatches the notifications of a row from before the drain had ended that are not
// parked, and says in how many columns there are some, and in how many at or below the watermark.
func (x *rowEraser) dispatch(info *catalog.TableInfo, p model.Pending) (columns, overdue int) {
	newest, below := map[string]model.Notification{}, map[string]bool{}
	for _, n := range p.Notified {
		col := n.Cell.Column
		if n.Timestamp > x.asked || p.OnlyParked(n) || !info.IsObserved[col] && !info.IsWeak[col] {
			continue
		}
		if n.Timestamp > newest[col].Timestamp {
			newest[col] = n
		}
		if n.Timestamp <= x.watermark {
			below[col] = true
		}
	}
	for _, n := range newest {
		x.e.Dispatch.Notified(n)
	}
	x.did.Dispatched += int64(len(below))
	x.e.Store.Count.FoundByCollector.Add(int64(len(below)))
	return len(newest), len(below)
}

// stray erases what means nothing: the observer states of columns without a notification (I19), and
// notifications of columns that the schema has ceased to observe. What was notified since a column
// is observed again is above the watermark.
func stray(info *catalog.TableInfo, p model.Pending, watermark tso.Timestamp) (muts []store.RowMutation) {
	mut := store.NewMutation(2)
	for _, st := range p.States {
		if !slices.ContainsFunc(p.Notified, func(n model.Notification) bool { return n.Cell == st.Cell }) {
			mut.ClearNotify(layout.StateColumn(st), st.Through)
		}
	}
	for _, n := range p.Notified {
		if col := n.Cell.Column; info != nil && !info.IsObserved[col] && !info.IsWeak[col] && n.Timestamp <= watermark {
			mut.ClearNotify(col, watermark)
		}
	}
	for part := range mut.Parts(maxErasures) {
		muts = append(muts, store.RowMutation{Table: p.Table, Row: p.Row, Mut: part})
	}
	return muts
}
