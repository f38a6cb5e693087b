package gc

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What a client tells of a committed transaction lets the collector erase without reading (J13): of
// each cell that was put, records and data below the transaction's start timestamp.
//
// At or above that timestamp there is no other record of a commit below its own (I2). Below it,
// nothing can commit any more, as the transaction's record would conflict (I2). So everything there
// is garbage once that record is at or below the watermark.
//
// A repair may have undone a commit of which its client tells later, beside its entry, which it
// appends again: what lies in a gap is read (I24). One row in checkedEvery is read all the same,
// and compared with what was told.

// checkedEvery is of how many rows that need not be read one is.
const checkedEvery = 128

// unread is what clients tell of the entries in some rows of a stream. The zero value is nothing.
type unread struct {
	watermark tso.Timestamp
	told      map[tso.Timestamp]toldEntry // by start timestamp
	checked   map[layout.RowID][]check    // rows that are read all the same
}

// toldEntry is an entry whose transaction has committed.
type toldEntry struct {
	commitTS tso.Timestamp
	columns  map[int][]string // that were put, by the place of their row in the entry
}

// check is what a row is read for that need not be.
type check struct {
	toldEntry
	startTS tso.Timestamp
	place   int
}

// newUnread takes what some rows of a stream tell.
func newUnread(rows []journal.StreamRow, watermark tso.Timestamp, m meta.State) unread {
	u := unread{watermark: watermark, told: map[tso.Timestamp]toldEntry{}, checked: map[layout.RowID][]check{}}
	for _, row := range rows {
		for _, c := range row.Committed() {
			if _, undone := m.InGap(c.CommitTS); undone {
				continue
			}
			e := toldEntry{c.CommitTS, map[int][]string{}}
			for _, r := range c.Rows {
				e.columns[r.Place] = r.Columns
			}
			u.told[c.StartTS] = e
		}
	}
	return u
}

// of is what is told of an entry; one without a primary has a timestamp in place of a transaction.
func (u unread) of(e model.JournalEntry) (toldEntry, bool) {
	t, ok := u.told[e.StartTS]
	return t, ok && e.Primary.Row != ""
}

// covers reports whether a row of an entry need not be read for it.
func (u unread) covers(e model.JournalEntry, place int) bool {
	t, ok := u.of(e)
	return ok && t.columns[place] != nil
}

// above reports whether the entry's transaction has committed above the watermark. Then it has made
// nothing garbage yet.
func (u unread) above(e model.JournalEntry) bool {
	t, ok := u.of(e)
	return ok && t.commitTS > u.watermark
}

// isChecked reports whether a row is one of those that are read all the same.
func isChecked(startTS tso.Timestamp, place int) bool {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, startTS, place)
	return h.Sum32()%checkedEvery == 0
}

// overwritten is what is erased in a row without reading it: of each column what is below.
type overwritten map[string]tso.Timestamp

func (o overwritten) mutation() *store.Mutation {
	mut := store.NewMutation(2 * len(o))
	for column, to := range o {
		mut.EraseBetween(layout.WriteFamily, column, 0, to)
		mut.EraseBetween(layout.DataFamily, column, 0, to)
	}
	return mut
}

// eraseUnread erases in the rows that need not be read for any of some entries, but for those that
// are read as a check.
func (x *rowEraser) eraseUnread(ctx context.Context, rows []journal.StreamRow) error {
	m, err := x.e.Meta.Known(ctx)
	if err != nil {
		return err
	}
	x.unread = newUnread(rows, x.watermark, m)
	if len(x.unread.told) == 0 {
		return nil
	}
	found := x.unreadRows(rows)
	for chunk := range slices.Chunk(slices.SortedFunc(maps.Keys(found), layout.RowID.Compare), store.RequestRows) {
		if err := WaitLeased(ctx, x.cfg.Lease, x.delay(len(chunk)), x.keep); err != nil {
			return err
		}
		var muts []store.RowMutation
		for _, id := range chunk {
			for part := range found[id].mutation().Parts(maxErasures) {
				muts = append(muts, store.RowMutation{Table: id.Table, Row: id.Key, Mut: part})
			}
		}
		if err := x.eraseAll(ctx, muts); err != nil {
			return err
		}
		x.did.Unread += int64(len(chunk))
		x.e.Store.Count.RowsUnread.Add(int64(len(chunk)))
	}
	return nil
}

// unreadRows is what to erase in which rows, and notes which of them are read as a check.
func (x *rowEraser) unreadRows(rows []journal.StreamRow) map[layout.RowID]overwritten {
	found, read := map[layout.RowID]overwritten{}, map[layout.RowID]bool{}
	for _, row := range rows {
		for _, e := range row.Entries {
			for place, r := range e.Rows {
				id := layout.RowID{Table: r.Table, Key: r.Key}
				switch _, known := x.catalog.Tables[r.Table]; {
				case e.StartTS > x.watermark || !known || x.unread.above(e):
				case !x.unread.covers(e, place):
					read[id] = true
				default:
					if found[id] == nil {
						found[id] = overwritten{}
					}
					t := x.unread.told[e.StartTS]
					for _, column := range t.columns[place] {
						found[id][column] = max(found[id][column], e.StartTS)
					}
					if isChecked(e.StartTS, place) {
						x.unread.checked[id] = append(x.unread.checked[id], check{t, e.StartTS, place})
					}
				}
			}
		}
	}
	maps.DeleteFunc(found, func(id layout.RowID, _ overwritten) bool {
		_, remembered := x.rows[id]
		return remembered || read[id] || x.unread.checked[id] != nil
	})
	return found
}

// skips reports whether a row that an entry names is not read for it.
func (x *rowEraser) skips(e model.JournalEntry, place int) bool {
	id := layout.RowID{Table: e.Rows[place].Table, Key: e.Rows[place].Key}
	if _, known := x.rows[id]; known || x.unread.above(e) {
		return true
	}
	return x.unread.covers(e, place) && x.unread.checked[id] == nil
}

// check compares a row that was read with what clients have told of it.
func (x *rowEraser) check(id layout.RowID, row layout.RowVersions) {
	for _, c := range x.unread.checked[id] {
		if !c.holds(row) {
			x.did.Contradicted++
			x.e.Store.Count.RowsContradicted.Add(1)
			x.e.Config.Logger.Error("collection: a row contradicts what the client of a transaction has told of it (J13); report this as a defect",
				"table", id.Table, "start_ts", c.startTS)
		}
	}
}

// holds reports whether a row is as after the commit: no lock of the transaction, its record or a
// later one, and between its timestamps no other commit (I2).
func (c check) holds(row layout.RowVersions) bool {
	for _, column := range c.columns[c.place] {
		v := row[column]
		if v == nil || v.Corrupt != nil { // nothing may be left of it
			continue
		}
		if slices.ContainsFunc(v.Locks, func(l layout.LockRecord) bool { return l.StartTS == c.startTS }) {
			return false
		}
		later, below := false, false
		for _, w := range v.Writes {
			if !w.Kind.Changes() {
				continue
			}
			if w.CommitTS > c.startTS && w.CommitTS < c.commitTS {
				return false
			}
			later, below = later || w.CommitTS >= c.commitTS, below || w.CommitTS < c.commitTS
		}
		if below && !later {
			return false
		}
	}
	return true
}
