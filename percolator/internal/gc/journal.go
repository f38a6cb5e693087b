package gc

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// With a journal the steps of a cycle follow what changed, not the tables (J6):
//
//	resolve   the locks of every open entry up to the safepoint (J12), without waiting for any to
//	          die: after the drain none of these transactions can commit any more
//	publish   the GC watermark, and which rows of the journal were read for that
//	erase     in every row that an entry in those names; then the entry goes, if the row shows that
//	          nothing will come of it any more (J7)
//
// A stream is read up to its first row all of whose entries are above the safepoint. What made
// anything at or below the safepoint garbage has committed there, so its entry was acknowledged
// before, and with it every row before it (J1).
//
// Both are divided into shares (shares.go), which outlive the collector.

// journalRows is how many rows of a stream are dealt with at once.
const journalRows = 256

// rememberedRows is how many rows a phase remembers, so that one that many entries name is read
// once.
const rememberedRows = 1 << 16

// finishByJournal does what is left of a cycle after its drain.
func (s *collecting) finishByJournal(ctx context.Context) error {
	if s.state.Phase == model.CollectionResolve {
		erase, err := s.resolveShares(ctx)
		if err != nil {
			return err
		}
		if err := s.publish(ctx); err != nil {
			return err
		}
		if err := s.enter(ctx, model.CollectionErase, erase); err != nil {
			return err
		}
	}
	if err := s.workShares(ctx); err != nil {
		return err
	}
	if err := s.eraseExpired(ctx); err != nil {
		return err
	}
	if err := s.forgetStreams(ctx); err != nil {
		return err
	}
	if err := s.optional(s.forgetParked(ctx)); err != nil {
		return err
	}
	return s.enter(ctx, model.CollectionDone, map[string][]byte{})
}

// optional is the error of something that a cycle does without if it finds what it cannot decode.
func (s *collecting) optional(err error) error {
	if errors.Is(err, model.ErrCorrupt) {
		s.e.Store.Warn(s.e.Config.Logger, "collection: rows of the journal were left as they are", err)
		return nil
	}
	return err
}

// delay is how long the pace has a collector wait before it reads n rows.
func (g *Collector) delay(n int) time.Duration {
	return g.pace.ReserveN(time.Now(), min(n, g.pace.Burst())).Delay()
}

// named is the keys, in order, of the rows of each known table that entries up to a timestamp name,
// but those that skips passes over, by their places in an entry.
func named(rows []journal.StreamRow, upTo tso.Timestamp, catalog *catalog.Catalog, skips func(e model.JournalEntry, place int) bool) map[string][]string {
	keys := map[string][]string{}
	for _, row := range rows {
		for _, e := range row.Entries {
			if e.StartTS > upTo {
				continue
			}
			for place, r := range e.Rows {
				// A table that the schema lost is gone with its contents.
				if _, known := catalog.Tables[r.Table]; known && !skips(e, place) {
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

// forgetStreams deletes the headers of streams that have no row left, once the session of their
// owner has ended. One that names no session stays, as its owner may be alive and append again: an
// oracle without sessions, as in tests, leaves some hundred bytes for each client.
func (s *collecting) forgetStreams(ctx context.Context) error {
	headers, err := journal.Streams(ctx, s.e.Store)
	if err != nil {
		return err
	}
	ended := map[journal.StreamID]bool{}
	for _, st := range headers {
		if !st.Header || st.Session != "" && s.e.Locks.SessionEnded(ctx, st.Session) {
			ended[st.ID] = true
		}
		if err := s.keep(ctx); err != nil {
			return err
		}
	}
	if len(ended) == 0 {
		return nil
	}
	var streams []journal.Stream // what has rows is asked when their owners append no more
	err = WhileLeased(ctx, s.cfg.Lease, s.keep, func(ctx context.Context) (err error) {
		streams, err = journal.AllStreams(ctx, s.e.Store)
		return err
	})
	for _, st := range streams {
		if !ended[st.ID] || st.Rows {
			continue
		}
		if err == nil {
			err = s.forget(ctx, st.ID, []uint64{0})
		}
		if err == nil {
			err = s.keep(ctx)
		}
	}
	return err
}

// forget deletes rows of a stream, unless a repair is unfinished.
func (g *Collector) forget(ctx context.Context, id journal.StreamID, seqs []uint64) error {
	_, err := g.e.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
		return true, journal.Forget(ctx, g.e.Store, id, seqs)
	})
	return err
}
