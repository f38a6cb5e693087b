package meta

import (
	"encoding/json"

	"github.com/gopercolator/percolator/tso"
)

// columnJournal is the column of the meta row with the state of the journal.
const columnJournal = "journal"

// JournalState tells how far the journal can be trusted. The zero value stands for one that was
// created with the instance and has always been complete.
type JournalState struct {
	Building bool          `json:",omitempty"` // it lacks what was written before it: until the sweep has ended, work and garbage are found by passes
	Since    tso.Timestamp `json:",omitempty"` // every transaction that began later has an entry
}

func decodeJournalState(b []byte) (s JournalState, err error) {
	err = json.Unmarshal(b, &s)
	return s, err
}

// Journaled reports whether transactions write entries, as far as this client knows.
func (w *Watcher) Journaled() bool { return !w.Catalog.Load().Schema.DisableJournal }

// ByJournal reports whether unfinished work and garbage are found by the journal. Until the journal
// is built, and without one, they are found by passes over the tables.
func (w *Watcher) ByJournal() bool {
	m, _ := w.Snapshot()
	return w.Journaled() && !m.Journal.Building
}
