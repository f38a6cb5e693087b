package gc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// With a journal the steps of a cycle follow what changed, not the tables (J6):
//
//	resolve   the locks of every entry up to the safepoint, without waiting for any to die: after
//	          the drain none of these transactions can commit any more
//	erase     in every row that such an entry names; then the entry goes, if the row shows that
//	          nothing will come of it any more (J7)
//
// A stream is read up to its first row all of whose entries are above the safepoint. What made
// anything at or below the safepoint garbage has committed there, so its entry was acknowledged
// before, and with it every row before it (J1).
//
// A cycle that was broken off begins its phase again: what is done is gone from the journal.

// journalRows is how many rows of a stream are dealt with at once.
const journalRows = 32

// finishByJournal does what is left of a cycle after its drain.
func (s *collecting) finishByJournal(ctx context.Context) error {
	if _, err := s.e.Meta.Refresh(ctx); err != nil {
		return err
	}
	if s.state.Phase == CollectionResolve {
		if err := s.eachEntry(ctx, s.resolveEntries); err != nil {
			return err
		}
		if err := s.publishWatermark(ctx); err != nil {
			return err
		}
		if err := s.enter(ctx, CollectionErase); err != nil {
			return err
		}
	}
	now, err := s.e.Clock.Next(ctx) // after the drain
	if err != nil {
		return err
	}
	err = s.eachEntry(ctx, func(ctx context.Context, id journal.StreamID, rows []journal.StreamRow) error {
		return s.eraseEntries(ctx, id, rows, now)
	})
	if err != nil {
		return err
	}
	return s.enter(ctx, CollectionDone)
}

// eachEntry hands the rows of all streams up to the safepoint to visit. A row that cannot be
// decoded stops the cycle: what it names may be needed.
func (s *collecting) eachEntry(ctx context.Context, visit func(context.Context, journal.StreamID, []journal.StreamRow) error) error {
	streams, err := journal.Streams(ctx, s.e.Store)
	if err != nil {
		return err
	}
	for _, st := range streams {
		for from, more := uint64(1), true; more; {
			var rows []journal.StreamRow
			if rows, more, err = journal.ReadStream(ctx, s.e.Store, st.ID, from, journalRows); err != nil {
				return err
			}
			if n := slices.IndexFunc(rows, s.above); n >= 0 {
				rows, more = rows[:n], false
			}
			if len(rows) == 0 {
				continue
			}
			if err := visit(ctx, st.ID, rows); err != nil {
				return err
			}
			from = rows[len(rows)-1].Seq + 1
			if err := s.keep(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// above reports whether every entry of a row is above the safepoint.
func (s *collecting) above(row journal.StreamRow) bool {
	return !slices.ContainsFunc(row.Entries, func(e journal.Entry) bool { return e.StartTS <= s.state.Safepoint })
}

// rowID names a row of a table.
type rowID struct{ table, key string }

// readNamed reads every row that the entries up to the safepoint name, once.
func (s *collecting) readNamed(ctx context.Context, rows []journal.StreamRow, q store.Query) (map[rowID]layout.Row, error) {
	keys := map[string]map[string]bool{}
	for _, row := range rows {
		for _, e := range row.Entries {
			if e.StartTS > s.state.Safepoint {
				continue
			}
			for _, r := range e.Rows {
				if _, known := s.e.Meta.Catalog.Load().Tables[r.Table]; !known {
					continue // a table that the schema has lost
				}
				if keys[r.Table] == nil {
					keys[r.Table] = map[string]bool{}
				}
				keys[r.Table][r.Key] = true
			}
		}
	}
	found := map[rowID]layout.Row{}
	for table, names := range keys {
		for chunk := range store.KeyChunks(slices.Sorted(maps.Keys(names))) {
			if err := s.rest(ctx, s.pace.ReserveN(time.Now(), min(len(chunk), s.pace.Burst())).Delay()); err != nil {
				return nil, err
			}
			err := s.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, q, 0, func(row layout.Row) bool {
				found[rowID{table, row.Key}] = row
				return true
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// resolveEntries resolves every lock up to the safepoint in the rows of some entries.
func (s *collecting) resolveEntries(ctx context.Context, _ journal.StreamID, rows []journal.StreamRow) error {
	found, err := s.readNamed(ctx, rows, store.Locks(s.state.Safepoint))
	if err != nil {
		return err
	}
	var resolved atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for id, row := range found {
		for col, v := range layout.DecodeRow(id.table, row) {
			if v.Corrupt != nil {
				return v.Corrupt
			}
			for _, l := range v.Locks {
				g.Go(func() error {
					err := s.e.Locks.ResolveDrained(gctx, model.Cell{Table: id.table, Row: id.key, Column: col}, l)
					if err == nil {
						resolved.Add(1)
					}
					return err
				})
			}
		}
	}
	err = g.Wait()
	s.state.Locks += resolved.Load()
	return err
}

// eraseEntries erases the garbage of the rows that some entries name, and then the rows of the
// journal whose entries may all go.
func (s *collecting) eraseEntries(ctx context.Context, id journal.StreamID, rows []journal.StreamRow, now tso.Timestamp) error {
	found, err := s.readNamed(ctx, rows, store.History())
	if err != nil {
		return err
	}
	blocked, err := s.eraseNamed(ctx, found)
	if err != nil {
		return err
	}
	var over []uint64
	for _, row := range rows {
		if !slices.ContainsFunc(row.Entries, func(e journal.Entry) bool { return s.needed(e, found, blocked, now) }) {
			over = append(over, row.Seq)
		}
	}
	return journal.Forget(ctx, s.e.Store, id, over)
}

// eraseNamed erases the garbage of rows, and returns those of which some could not be erased.
func (s *collecting) eraseNamed(ctx context.Context, found map[rowID]layout.Row) (blocked map[rowID]bool, err error) {
	byTable := map[string][]layout.Row{}
	for id, row := range found {
		byTable[id.table] = append(byTable[id.table], row)
	}
	blocked = map[rowID]bool{}
	var mu sync.Mutex
	for table, page := range byTable {
		slices.SortFunc(page, func(a, b layout.Row) int { return strings.Compare(a.Key, b.Key) })
		var did erased
		did.left = func(key string) {
			mu.Lock()
			defer mu.Unlock()
			blocked[rowID{table, key}] = true
		}
		err = errors.Join(err, s.erasePage(ctx, table, page, s.e.Meta.Catalog.Load().Tables[table].IsObserved, &did))
		s.count(&did, len(page))
	}
	return blocked, err
}

// needed reports whether an entry has to stay for a later cycle (J7). What its rows held was read
// in this cycle, after the drain.
func (s *collecting) needed(e journal.Entry, found map[rowID]layout.Row, blocked map[rowID]bool, now tso.Timestamp) bool {
	if e.StartTS > s.state.Safepoint {
		return true
	}
	needed := false
	for _, r := range e.Rows {
		id := rowID{r.Table, r.Key}
		row, there := found[id]
		if !there {
			continue
		}
		if blocked[id] || s.names(e, r.Table, row) {
			needed = true
		}
		bound := s.state.Safepoint
		if r.Weak {
			bound = now
		}
		if s.notified(r.Table, row, bound) {
			needed = true
		}
	}
	return needed
}

// names reports whether a row holds a lock of an entry's transaction, a record of it above the
// watermark, or a trace.
func (s *collecting) names(e journal.Entry, table string, row layout.Row) bool {
	for col, v := range layout.DecodeRow(table, row) {
		if layout.IsTrace(col) || v.Corrupt != nil {
			return true
		}
		if slices.ContainsFunc(v.Locks, func(l layout.LockRecord) bool { return l.StartTS == e.StartTS }) ||
			slices.ContainsFunc(v.Writes, func(w layout.WriteRecord) bool { return w.StartTS == e.StartTS && w.CommitTS > s.state.Safepoint }) {
			return true
		}
	}
	return false
}

// notified dispatches the notifications of a row at or below bound, and reports whether there are
// any that are not parked.
func (s *collecting) notified(table string, row layout.Row, bound tso.Timestamp) (owed bool) {
	p := layout.DecodePending(table, row)
	info := s.e.Meta.Catalog.Load().Tables[table]
	for _, n := range p.Notified {
		if n.Timestamp > bound || p.OnlyParked(n) || !info.IsObserved[n.Cell.Column] && !info.IsWeak[n.Cell.Column] {
			continue
		}
		s.e.Dispatch.Notified(n)
		s.e.Store.Count.FoundByCollector.Add(1)
		owed = true
	}
	return owed
}
