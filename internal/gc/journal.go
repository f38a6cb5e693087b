package gc

import (
	"context"
	"errors"
	"slices"
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
//	publish   the GC watermark, and which rows of the journal the locks were resolved of
//	erase     in every row that an entry in those names; then the entry goes, if the row shows that
//	          nothing will come of it any more (J7)
//
// A stream is read up to its first row all of whose entries are above the safepoint. What made
// anything at or below the safepoint garbage has committed there, so its entry was acknowledged
// before, and with it every row before it (J1).
//
// A cycle that was broken off while it resolved begins to resolve again. Erasing is divided into
// shares (shares.go), which outlive the collector.

// journalRows is how many rows of a stream are dealt with at once.
const journalRows = 256

// rememberedRows is how many rows a phase remembers, so that one that many entries name is read
// once.
const rememberedRows = 1 << 16

// rowID names a row of a table.
type rowID struct{ table, key string }

// finishByJournal does what is left of a cycle after its drain.
func (s *collecting) finishByJournal(ctx context.Context) error {
	if s.state.Phase == CollectionResolve {
		resolved, err := s.resolveStreams(ctx)
		if err != nil {
			return err
		}
		if err := s.publish(ctx); err != nil {
			return err
		}
		asked, err := s.e.Clock.Next(ctx) // after the drain
		if err != nil {
			return err
		}
		if err := s.enter(ctx, CollectionErase, divide(resolved, s.state.Safepoint, asked)); err != nil {
			return err
		}
	}
	if err := s.eraseShares(ctx); err != nil {
		return err
	}
	if err := s.forgetStreams(ctx); err != nil {
		return err
	}
	if err := s.forgetParked(ctx); errors.Is(err, model.ErrCorrupt) { // which nothing here depends on
		s.e.Config.Logger.Warn("collection: what the journal lists as parked was left as it is", "err", err)
	} else if err != nil {
		return err
	}
	return s.enter(ctx, CollectionDone, map[string][]byte{})
}

// resolveStreams resolves the locks of all entries up to the safepoint, and returns which rows of
// the journal hold them. A row that cannot be decoded stops the cycle: what it names may be needed.
func (s *collecting) resolveStreams(ctx context.Context) (resolved []streamRows, err error) {
	streams, err := journal.AllStreams(ctx, s.e.Store)
	if err != nil {
		return nil, err
	}
	seen := map[rowID]bool{}
	for _, st := range streams {
		rows, err := s.resolveStream(ctx, st.ID, seen)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			resolved = append(resolved, streamRows{[]byte(st.ID), rows})
		}
	}
	return resolved, nil
}

func (s *collecting) resolveStream(ctx context.Context, id journal.StreamID, seen map[rowID]bool) (resolved seqs, err error) {
	for rows, err := range journal.ReadStream(ctx, s.e.Store, id, 1, journalRows) {
		if err != nil {
			return nil, err
		}
		end := slices.IndexFunc(rows, s.above)
		if end >= 0 {
			rows = rows[:end]
		}
		if err := s.resolveEntries(ctx, rows, seen); err != nil {
			return nil, err
		}
		for _, row := range rows {
			resolved = resolved.with(row.Seq)
		}
		if end >= 0 {
			break
		}
	}
	return resolved, nil
}

// above reports whether every entry of a row is above the safepoint.
func (s *collecting) above(row journal.StreamRow) bool {
	return !slices.ContainsFunc(row.Entries, func(e journal.Entry) bool { return e.StartTS <= s.state.Safepoint })
}

// resolveEntries resolves every lock up to the safepoint in the rows of some entries. A lock that
// cannot be judged stops the cycle: what it depends on must not be erased.
func (s *collecting) resolveEntries(ctx context.Context, rows []journal.StreamRow, seen map[rowID]bool) error {
	if err := s.e.Meta.CheckRepairing(ctx); err != nil {
		return err
	}
	if len(seen) > rememberedRows {
		clear(seen)
	}
	catalog := s.e.Meta.Catalog.Load()
	for table, keys := range named(rows, s.state.Safepoint, catalog, func(id rowID) bool { return seen[id] }) {
		for _, key := range keys {
			seen[rowID{table, key}] = true
		}
		for chunk := range store.KeyChunks(keys) {
			if err := s.rest(ctx, s.delay(len(chunk))); err != nil {
				return err
			}
			var locked []layout.Row
			err := s.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, store.Locks(s.state.Safepoint), 0, func(row layout.Row) bool {
				locked = append(locked, row)
				return true
			})
			if err == nil {
				err = s.resolveRows(ctx, table, locked)
			}
			if err == nil {
				err = s.keep(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	return s.keep(ctx)
}

// delay is how long the pace has a collector wait before it reads n rows.
func (g *Collector) delay(n int) time.Duration {
	return g.pace.ReserveN(time.Now(), min(n, g.pace.Burst())).Delay()
}

// named is the keys, in order, of the rows of each known table that entries up to a timestamp name,
// but those that done knows.
func named(rows []journal.StreamRow, upTo tso.Timestamp, catalog *model.Catalog, done func(rowID) bool) map[string][]string {
	keys := map[string][]string{}
	for _, row := range rows {
		for _, e := range row.Entries {
			if e.StartTS > upTo {
				continue
			}
			for _, r := range e.Rows {
				if _, known := catalog.Tables[r.Table]; known && !done(rowID{r.Table, r.Key}) { // else the schema has lost it, with everything in it
					keys[r.Table] = append(keys[r.Table], r.Key)
				}
			}
		}
	}
	for table, list := range keys {
		slices.Sort(list)
		keys[table] = slices.Compact(list)
	}
	return keys
}

func (s *collecting) resolveRows(ctx context.Context, table string, rows []layout.Row) error {
	var resolved atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(collectParallel)
	for _, row := range rows {
		for col, v := range layout.DecodeRow(table, row) {
			if v.Corrupt != nil {
				g.Go(func() error { return v.Corrupt })
			}
			for _, l := range v.Locks {
				g.Go(func() error {
					err := s.e.Locks.ResolveDrained(gctx, model.Cell{Table: table, Row: row.Key, Column: col}, l)
					if err == nil {
						resolved.Add(1)
					}
					return err
				})
			}
		}
	}
	err := g.Wait()
	s.state.Locks += resolved.Load()
	return err
}

// forgetStreams deletes the headers of streams that have no row left, once the session of their
// owner has ended. One that names no session stays, as its owner may be alive and append again: an
// oracle without sessions, as in tests, leaves some hundred bytes for each client.
func (s *collecting) forgetStreams(ctx context.Context) error {
	streams, err := journal.AllStreams(ctx, s.e.Store)
	if err != nil {
		return err
	}
	for _, st := range streams {
		if st.Header && (st.Session == "" || !s.e.Locks.SessionEnded(ctx, st.Session)) {
			continue
		}
		more, err := journal.HasRows(ctx, s.e.Store, st.ID, 1)
		if err == nil && !more {
			err = s.e.Meta.CheckRepairing(ctx)
			if err == nil {
				err = s.forget(ctx, st.ID, []uint64{0})
			}
		}
		if err == nil {
			err = s.keep(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget deletes rows of a stream.
func (g *Collector) forget(ctx context.Context, id journal.StreamID, seqs []uint64) error {
	_, err := g.e.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return true, journal.Forget(ctx, g.e.Store, id, seqs)
	})
	return err
}
