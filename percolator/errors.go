package percolator

import "github.com/gopercolator/percolator/percolator/model"

// What a read or a write of one cell can answer.
var (
	// ErrNotFound: the cell has no value in the snapshot. An empty value is not absence.
	ErrNotFound = model.ErrNotFound
	// ErrExists: Insert met a cell that has a value. Read it, or use Set to overwrite it.
	ErrExists = model.ErrExists
	// ErrUnique: another row already holds this value in a unique index. Choose another value or
	// change the row that holds it. A *UniqueError names index and row.
	ErrUnique = model.ErrUnique
)

// How a transaction can end other than by committing.
var (
	// ErrConflict: another transaction won; nothing was written. Run the transaction again, as
	// Update does. A *ConflictError names the cell.
	ErrConflict = model.ErrConflict
	// ErrLocked: a live lock of another transaction is in the way. A read waited for it until its
	// context ended. A write does not wait: the error is ErrConflict as well; run the transaction
	// again.
	ErrLocked = model.ErrLocked
	// ErrOutcomeUnknown: the transaction may have committed, may commit later, or may never have
	// committed: the context ended or the client was closed before the store said which, or the
	// record has been collected. Never retry blindly: read what the transaction should have written
	// first. A commit whose context does not end waits until the store answers.
	ErrOutcomeUnknown = model.ErrOutcomeUnknown
	// ErrSnapshotTooOld: the snapshot is older than the retention, the client has been unable to
	// read the safepoint for too long, or the index was not complete at the snapshot. Begin again;
	// for long readers raise the retention or take a hold (admin.Admin.TakeHold).
	ErrSnapshotTooOld = model.ErrSnapshotTooOld
	// ErrOverloaded: Bigtable refused requests (RESOURCE_EXHAUSTED), which the client retries as
	// Bigtable asks, until the context ended. Add nodes, send less, or allow more time for the load
	// to fall. The error of a commit that may have been applied is ErrOutcomeUnknown as well.
	// "percolator check" names the tables.
	ErrOverloaded = model.ErrOverloaded
)

// What the caller has to change.
var (
	// ErrInvalidArgument: the call can never succeed as it is; nothing was buffered or sent.
	ErrInvalidArgument = model.ErrInvalidArgument
	// ErrTooLarge: a limit on sizes or counts is exceeded; see the constants named Max.
	ErrTooLarge = model.ErrTooLarge
	// ErrSchemaMismatch: the table or column is not in the schema, or the client's schema is not
	// the one stored in the instance. Run CreateSchema with the new schema. For a table or an index
	// that the schema lacks, the error is ErrInvalidArgument as well.
	ErrSchemaMismatch = model.ErrSchemaMismatch
	// ErrTxnDone: the transaction has been committed or rolled back. Begin another.
	ErrTxnDone = model.ErrTxnDone
	// ErrClosed: the client has been closed.
	ErrClosed = model.ErrClosed
	// ErrCorrupt: stored bytes that this module did not write, or that contradict the protocol. It
	// is never repaired silently; the message names the cell. Inspect the row
	// (percolator row TABLE ROW) before you change anything.
	ErrCorrupt = model.ErrCorrupt
)

// ConflictError names the cell on which a transaction conflicted. errors.Is(err, ErrConflict)
// holds, and errors.Is(err, ErrLocked) if another transaction was alive and held the cell's lock.
type ConflictError = model.ConflictError

// UniqueError names the unique index that has refused a value, and the row that has it.
// errors.Is(err, ErrUnique) holds.
type UniqueError = model.UniqueError
