package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// importPrefix begins the columns of the meta row with Imports; the name of the table follows.
const importPrefix = "import:"

// Import is the fence of one table, in a cell of the meta row (I28). While Phase is not "" every
// client refuses the table, and those of its indexes. Afterwards they refuse what is older than
// Since: the values appeared there, whatever their commit timestamp says.
type Import struct {
	Nonce string `json:",omitempty"` // of a long cell, as it was read (store.Comparable)

	ID      string      // names the source
	Phase   ImportPhase `json:",omitempty"` // "": no import is unfinished
	Started time.Time

	Start, Commit tso.Timestamp `json:",omitzero"`  // of everything it writes; from ImportLoad on
	Indexes       []string      `json:",omitempty"` // those whose entries it writes, by name
	Quiet         bool          `json:",omitempty"` // it notifies no observer
	Takeovers     int64         `json:",omitempty"` // by processes that shut out the one before

	// Older snapshots are refused; of the last finished import.
	Since tso.Timestamp `json:",omitzero"`

	// Erased is what aborted imports had written. A copy of the table, for a repair, may hold some.
	Erased []ErasedImport `json:",omitempty"`
}

// ErasedImport is an import that was aborted.
type ErasedImport struct {
	Start, Commit tso.Timestamp // of everything it had written
	At            tso.Timestamp // when all of that was erased; MaxTimestamp: it may be back, by a repair
}

// MaxErasedImports is how many aborted imports of one table the fence remembers.
const MaxErasedImports = 100

// ImportPhase is a step of an import.
type ImportPhase string

// The phases of an import that is unfinished.
const (
	ImportDrain ImportPhase = "drain" // the fence is stored
	ImportLoad  ImportPhase = "load"  // it is in force, and the table was empty then
	ImportAbort ImportPhase = "abort" // what was written goes
)

// Encode returns the bytes of the cell.
func (i Import) Encode() []byte {
	return layout.JSON(i)
}

// stored is the cell as a write leaves it.
func (i Import) stored() []byte {
	i.Nonce = ""
	return store.Comparable(i.Encode())
}

// Lifted is the cell once the import has ended, at since.
func (i Import) Lifted(since tso.Timestamp) *Import {
	i.Phase, i.Since = "", since
	return &i
}

// Withdrawn is the cell once an import is given up that has written nothing, or whose table is
// gone; nil if there was none before.
func (i Import) Withdrawn() *Import {
	if i.Since == 0 && len(i.Erased) == 0 {
		return nil
	}
	i.Phase, i.Start, i.Commit, i.Indexes = "", 0, 0, nil
	return &i
}

// Aborted is the cell once everything was erased that the import, and those in Erased that a repair
// has brought back, have written, at now.
func (i Import) Aborted(now tso.Timestamp) *Import {
	erased := slices.Clone(i.Erased)
	if i.Commit != 0 {
		erased = append(erased, ErasedImport{i.Start, i.Commit, now})
	}
	for n := range erased {
		if erased[n].At == tso.MaxTimestamp {
			erased[n].At = now
		}
	}
	i.Erased = erased
	return i.Withdrawn()
}

// lowestRepair is what no repair goes to, nor below it: they go to what is above the safepoint, or
// under a hold.
func (m State) lowestRepair() tso.Timestamp {
	lowest := m.Safepoint
	for _, h := range m.Holds {
		lowest = min(lowest, h.Timestamp-1)
	}
	return lowest
}

// StillErased are those of Erased of which a copy of the table may hold something that a repair
// would keep.
func (m State) StillErased(i Import) (still []ErasedImport) {
	lowest := m.lowestRepair()
	for _, e := range i.Erased {
		if e.At > lowest {
			still = append(still, e)
		}
	}
	return still
}

func (m *State) decodeImport(column string, value []byte) error {
	var i Import
	if err := json.Unmarshal(value, &i); err != nil {
		return err
	}
	m.setImport(strings.TrimPrefix(column, importPrefix), i)
	return nil
}

func (m *State) setImport(table string, i Import) {
	if m.Imports == nil {
		m.Imports = map[string]Import{}
	}
	m.Imports[table] = i
}

// Refusal is the ErrImporting that names the table and the import.
func (i Import) Refusal(table string) error {
	does := "continue it with percolator import, or remove what it has written with percolator import --abort"
	if i.Phase == ImportAbort {
		does = "it is being aborted; end that with percolator import --abort"
	}
	return fmt.Errorf("percolator: table %q: %w: that of %s, started %s; %s", table, model.ErrImporting, i.ID, i.Started.UTC().Format(time.RFC3339), does)
}

// importOf is what stands in the way of a table, or of the one whose index it is.
func (m State) importOf(table string) (owner string, i Import) {
	if len(m.Imports) == 0 {
		return table, i
	}
	owner, _, _ = strings.Cut(table, ".") // names of tables have no dots
	return owner, m.Imports[owner]
}

// Importing returns the refusal of the first table, in order, into which an import is unfinished;
// nil: there is none.
func (m State) Importing() error {
	for _, table := range slices.Sorted(maps.Keys(m.Imports)) {
		if i := m.Imports[table]; i.Phase != "" {
			return i.Refusal(table)
		}
	}
	return nil
}

// IsImporting reports whether this client knows of an unfinished import into a table.
func (w *Watcher) IsImporting(table string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, i := w.last.importOf(table)
	return i.Phase != ""
}

// checkImports refuses what was read of tables at ts (I28).
func (m State) checkImports(ts tso.Timestamp, tables []string) error {
	for _, table := range tables {
		switch owner, i := m.importOf(table); {
		case i.Phase != "":
			return i.Refusal(owner)
		case ts < i.Since:
			return Outdated(ts, fmt.Errorf("percolator: table %q: %w: the snapshot at %d is older than an import, which is there since %d", owner, model.ErrSnapshotTooOld, ts, i.Since))
		}
	}
	return nil
}

// OutdatedError is the ErrSnapshotTooOld of a snapshot from before an import, or an index, was
// complete or gone. However young it was, the next one can read there.
type OutdatedError struct {
	error
	Snapshot tso.Timestamp
}

// Outdated is the OutdatedError of a snapshot at ts.
func Outdated(ts tso.Timestamp, err error) error { return &OutdatedError{err, ts} }

// Unwrap is the error without the snapshot.
func (e *OutdatedError) Unwrap() error { return e.error }

// checkErased refuses what was read of tables at ts if a part of it may be what an import had
// written that was aborted later (I28): a slow answer may be from before that.
func (m State) checkErased(ts tso.Timestamp, tables []string) error {
	for _, table := range tables {
		if owner, i := m.importOf(table); i.erasedAfter(ts) > 0 {
			return Outdated(ts, fmt.Errorf("percolator: table %q: %w: the snapshot at %d is older than the end of an import that was aborted, at %d", owner, model.ErrSnapshotTooOld, ts, i.erasedAfter(ts)))
		}
	}
	return nil
}

// erasedAfter is when the last of the aborted imports was erased that a snapshot at ts may have
// seen; 0: it has seen none.
func (i Import) erasedAfter(ts tso.Timestamp) (at tso.Timestamp) {
	for _, e := range i.Erased {
		if e.Commit <= ts && ts < e.At {
			at = max(at, e.At)
		}
	}
	return at
}

// checkImported refuses the commit to tables of a transaction from before an import ended: it may
// have been in the middle of its prewrites for all the time that the import took.
func (m State) checkImported(startTS tso.Timestamp, tables iter.Seq[string]) error {
	if len(m.Imports) == 0 || tables == nil {
		return nil
	}
	for table := range tables {
		switch owner, i := m.importOf(table); {
		case i.Phase != "":
			return i.Refusal(owner)
		case startTS < i.Since:
			return fmt.Errorf("percolator: transaction %d: table %q: %w: it began before an import ended, at %d; run it again", startTS, owner, model.ErrConflict, i.Since)
		}
	}
	return nil
}

// checkTTLs refuses a schema in which the values of a table live for another time while an import
// into it is unfinished. A process that continues the import goes by the schema of its own time:
// its values would live for another time than those written before, and Verify compares them by it.
func (m State) checkTTLs(next *model.Schema) error {
	for _, ch := range schemaChanges(m.Schema, next) {
		if i := m.Imports[ch.Table]; i.Phase != "" && ch.Was.TTL != ch.Column.TTL {
			return fmt.Errorf("%w; before that its TTLs cannot change", i.Refusal(ch.Table))
		}
	}
	return nil
}

// ReplaceImport stores next (nil: nothing) instead of old, unless another process was faster.
func (w *Watcher) ReplaceImport(ctx context.Context, table string, old, next *Import) (replaced bool, err error) {
	var was, is []byte
	if old != nil {
		was = old.Encode()
	}
	if next != nil {
		is = next.stored()
	}
	replaced, err = w.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return w.Store.CompareAndSet(ctx, RowKey, importPrefix+table, was, is)
	})
	if err != nil {
		return false, fmt.Errorf("percolator: the fence of table %q: %w", table, err)
	}
	return replaced, nil
}

// broughtBack is Erased after a repair to ts, if copies from before their ends may hold what some
// have written.
func (i Import) broughtBack(ts tso.Timestamp) (erased []ErasedImport) {
	for n, e := range i.Erased {
		if e.Start <= ts && e.At > ts {
			if erased == nil {
				erased = slices.Clone(i.Erased)
			}
			erased[n].At = tso.MaxTimestamp
		}
	}
	return erased
}

// reopenImports puts, into a repair's last mutation, fences before the tables whose imports had not
// ended at ts: of what such an import has written some rows may be missing, and some may be back if
// it was aborted since. A process that continues an import begins at the beginning, as the
// positions of loads are forgotten. One that lives through the repair may have verified what is
// missing, or erased what is back: every fence shuts it out, as a takeover does.
func (m State) reopenImports(ts tso.Timestamp, mut *store.Mutation) {
	for table, i := range m.Imports {
		switch back := i.broughtBack(ts); {
		case back != nil:
			i.Phase, i.Erased = ImportAbort, back
		case i.Phase == "" && i.Since > ts && i.Commit != 0:
			i.Phase = ImportLoad
		case i.Phase == "":
			continue
		}
		i.Takeovers++
		mut.Put(layout.MetaFamily, importPrefix+table, store.MetaTimestamp, i.stored())
	}
}
