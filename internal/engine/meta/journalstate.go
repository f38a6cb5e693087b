package meta

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// columnJournal is the column of the meta row with the state of the journal. It changes with the
// schema's version, in the mutation that changes the schema.
const columnJournal = "journal"

// The journal is turned on and off while clients run. Each learns of it by the meta row, and until
// then does as before. Nothing is lost:
//
//	on    A client that does not know of it commits without entries, until one drain after the schema
//	      was stored: then its knowledge is too old to commit, and no request of it is in flight
//	      (J9).
//	      The sweep begins after that drain, and announces whatever the rows hold without an entry.
//	      Until it has ended all work by passes, which need no entries.
//	off   All work by passes as soon as they know. Clients that do not know yet work by a journal
//	      that may lack entries: what an adopter misses meanwhile, the passes find. A collector goes
//	      by it only up to a safepoint that was announced a drain before it read the state, and below
//	      that no one commits any more, with or without entries.
//	on    again: as if it had never been there. A sweep that began before ends without effect, since
//	      each building of the journal has a name.

// buildingJournal is the state of a journal that lacks what is older.
func buildingJournal() model.JournalState { return model.JournalState{Building: uuid.NewString()} }

// journalAfter is the state once next has replaced old, the schema of s.
func journalAfter(s model.JournalState, old, next *model.Schema) model.JournalState {
	switch {
	case next.DisableJournal:
		return model.JournalState{}
	case old != nil && old.DisableJournal:
		return buildingJournal()
	}
	return s
}

// Journaled reports whether transactions write entries, as far as this client knows.
func (w *Watcher) Journaled() bool { return !w.Catalog.Load().Schema.DisableJournal }

// ByJournal reports whether unfinished work is found by the journal. Until the journal is built,
// and without one, it is found by passes over the tables.
func (w *Watcher) ByJournal() bool {
	m, _ := w.Snapshot()
	return w.Journaled() && m.Journal.Building == ""
}

// CollectByJournal is ByJournal for a collector that has announced safepoint, and has waited for
// the drain: what is garbage there, and every lock, has an entry at or below the safepoint.
func (w *Watcher) CollectByJournal(safepoint tso.Timestamp) bool {
	m, _ := w.Snapshot()
	return w.ByJournal() && safepoint >= m.Journal.Since
}

// JournalReady ends a building of the journal, if it is still going on. since was asked for after
// the sweep. Errors: ErrConflict for another building, those of the store.
func (w *Watcher) JournalReady(ctx context.Context, building string, since tso.Timestamp) error {
	m, err := w.publish(ctx, func(m State) (State, bool) {
		if m.Journal.Building != building {
			return m, false
		}
		m.Journal = model.JournalState{Since: since}
		return m, true
	})
	if err == nil && (m.Journal.Since != since || m.Schema.DisableJournal) {
		err = fmt.Errorf("percolator: %w: another client has built the journal, or turned it off", model.ErrConflict)
	}
	return err
}

// ReopenJournal has the journal built again, by a process that has emptied it or is about to.
func (w *Watcher) ReopenJournal(ctx context.Context) error {
	next := buildingJournal()
	_, err := w.publish(ctx, func(m State) (State, bool) {
		if m.Schema.DisableJournal || m.Journal == next {
			return m, false
		}
		m.Journal = next
		return m, true
	})
	return err
}

// publish stores what change makes of the states beside the schema, until it finds nothing to do,
// and returns what is stored then. The requests are conditional on the version, so none can undo a
// change by another process.
func (w *Watcher) publish(ctx context.Context, change func(State) (next State, needed bool)) (State, error) {
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for failed := 0; ; {
		m, err := w.Refresh(ctx)
		if err != nil {
			return m, err
		}
		next, needed := change(m)
		if !needed {
			return m, nil
		}
		_, err = m.replace(ctx, w.Store, next)
		if err == nil {
			continue // applied, or overtaken by another change: see which
		}
		if failed++; !retry.Ambiguous(err) || errors.Is(err, model.ErrClosed) || failed == retry.TransientFailures {
			return m, err
		}
		if perr := pause.Wait(ctx); perr != nil {
			return m, fmt.Errorf("%w: %w", err, perr)
		}
	}
}
