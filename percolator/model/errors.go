package model

import (
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/tso"
)

// Errors of a read or a write of one cell.
var (
	// ErrNotFound: the cell has no value in the snapshot. An empty value is not absence.
	ErrNotFound = errors.New("not found")
	// ErrExists: Insert met a cell that has a value. Read it, or use Set to overwrite it.
	ErrExists = errors.New("already exists")
	// ErrUnique: another row holds this value in a unique index. Choose another value or change the
	// row that holds it; errors.As with *UniqueError tells which index and which row.
	ErrUnique = errors.New("unique index violated")
)

// Outcomes of a transaction that did not simply commit.
var (
	// ErrConflict: another transaction won; nothing was written. Run the transaction again (Update
	// does). errors.As with *ConflictError tells which cell.
	ErrConflict = errors.New("conflict")
	// ErrLocked: the lock of another transaction stood in the way. A reader has waited for it until
	// its context ended, a Collector for half of its lease. A writer does not wait: it gets
	// ErrConflict as well, and may run again.
	ErrLocked = errors.New("locked")
	// ErrOutcomeUnknown: the context ended or the client was closed before it was known whether the
	// transaction committed, or the collector may have removed its record. It may have committed,
	// or may commit later. A commit whose context does not end waits until the store answers. Never
	// retry blindly: read what the transaction should have written, then decide.
	ErrOutcomeUnknown = errors.New("commit outcome unknown")
	// ErrSnapshotTooOld: the snapshot is older than the retention, the client has failed to learn
	// the safepoint for too long, or the snapshot of an index scan precedes the completion of the
	// index. Begin again; for long readers raise the retention or take a hold
	// (admin.Admin.TakeHold).
	ErrSnapshotTooOld = errors.New("snapshot too old")
	// ErrOverloaded: Bigtable has asked to slow down until the context ended; what was sent may have
	// been applied. Add nodes, or send less; percolator check names the tables.
	ErrOverloaded = errors.New("overloaded")
)

// Errors that the caller has to mend.
var (
	// ErrInvalidArgument: the call can never succeed as it is; nothing was buffered or sent.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrTooLarge: a size or a count exceeds its limit (see Limits in the package documentation).
	ErrTooLarge = errors.New("too large")
	// ErrSchemaMismatch: the table or column is not in the schema, or the client's schema differs
	// from the one stored in the instance. Run CreateSchema (or `webindex init` and the like) with
	// the new schema.
	ErrSchemaMismatch = errors.New("schema mismatch")
	// ErrTxnDone: the transaction has committed or rolled back. Begin another.
	ErrTxnDone = errors.New("transaction is finished")
	// ErrClosed: the client has been closed.
	ErrClosed = errors.New("client is closed")
)

// Errors of an instance, or a table, that is fenced: no client reads it or commits to it until what
// has fenced it ends.
var (
	// ErrImporting: an import into the table has started and has not finished. Run the import to its
	// end, or abort it (loader.AbortImport).
	ErrImporting = errors.New("an import is unfinished")
	// ErrRestoring: a restore into the instance has started and has not finished, so the data is
	// incomplete. Run the restore to its end, or abandon it (backup.AbandonRestore).
	ErrRestoring = errors.New("a restore is unfinished")
	// ErrRepairing: a repair of the instance has started and has not finished, so the data may lack
	// some of what it should hold, and hold some of what it should not. Run the repair to its end.
	ErrRepairing = errors.New("a repair is unfinished")
)

// Errors of work on an instance that was refused for other such work.
var (
	// ErrLeased: another process holds the lease of collection, or of the sweep, and does the work.
	ErrLeased = errors.New("leased by another process")
	// ErrHeld: holds keep snapshots that show what is to be dropped. Release them, or wait until they
	// expire.
	ErrHeld = errors.New("held by a snapshot")
)

// Errors of a restore, an import or a repair that was refused.
var (
	// ErrNotEmpty: a restore needs empty tables, an import an empty one.
	ErrNotEmpty = errors.New("table is not empty")
	// ErrNotHeld: no hold has kept what the repair needs from collection.
	ErrNotHeld = errors.New("not held from collection")
	// ErrOracleBehind: cells are newer than what the oracle hands out. Raise its mark, and run the
	// repair again.
	ErrOracleBehind = errors.New("the oracle is behind the tables")
	// ErrRepairFindings: the audit of the repaired tables has found something; the fence is still
	// there.
	ErrRepairFindings = errors.New("the repaired tables are not sound")
)

// ErrCorrupt: this package did not write the stored bytes, or they contradict the protocol. Nothing
// is repaired silently; the message names the cell. Inspect the row before you change anything.
var ErrCorrupt = errors.New("corrupt")

// ConflictError says on which cell a transaction lost. errors.Is(err, ErrConflict) holds; so does
// errors.Is(err, ErrLocked) while the other transaction is alive and holds its lock.
type ConflictError struct {
	Cell    Cell          // the contested cell
	StartTS tso.Timestamp // start timestamp of the transaction that lost
	// OtherTS is the commit timestamp of the transaction that won, or the start timestamp of the
	// one that holds the lock. 0: another client judged this transaction dead and rolled it back,
	// or it gave way to an Update of its own client that had lost on the cell before.
	OtherTS tso.Timestamp
	Locked  bool // the other transaction still holds its lock
	GaveWay bool // an Update of the same client that had lost on Cell before went first
}

// Error names the cell and both transactions, never a value.
func (e *ConflictError) Error() string {
	switch {
	case e.Locked:
		return fmt.Sprintf("percolator: conflict on %s: transaction %d met the lock of transaction %d", e.Cell, e.StartTS, e.OtherTS)
	case e.GaveWay:
		return fmt.Sprintf("percolator: conflict on %s: transaction %d gave way to an Update that had lost there before", e.Cell, e.StartTS)
	case e.OtherTS == 0:
		return fmt.Sprintf("percolator: conflict on %s: transaction %d was rolled back after its lock had expired", e.Cell, e.StartTS)
	default:
		return fmt.Sprintf("percolator: conflict on %s: transaction %d met a write committed at %d", e.Cell, e.StartTS, e.OtherTS)
	}
}

// Is reports whether target is ErrConflict, or ErrLocked for a live lock.
func (e *ConflictError) Is(target error) bool {
	return target == ErrConflict || (e.Locked && target == ErrLocked)
}

// UniqueError says which unique index has refused a value, and for which row. errors.Is(err,
// ErrUnique) holds.
type UniqueError struct {
	Cell   Cell   // which was to get the value
	Index  string // of Cell.Table, over Cell.Column
	Holder string // the key of the row that has the value
	Own    bool   // Holder gets it in the same transaction
}

// Error names both cells and the index, never the value.
func (e *UniqueError) Error() string {
	holder := e.Cell
	holder.Row = e.Holder
	if e.Own {
		return fmt.Sprintf("percolator: %s: %s: the transaction gives %s the same value in index %q", e.Cell, ErrUnique, holder, e.Index)
	}
	return fmt.Sprintf("percolator: %s: %s: %s holds this value in index %q", e.Cell, ErrUnique, holder, e.Index)
}

// Is reports whether target is ErrUnique.
func (e *UniqueError) Is(target error) bool { return target == ErrUnique }
