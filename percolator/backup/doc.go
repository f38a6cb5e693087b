// Package backup writes a consistent snapshot of an instance to a directory or an object store, and
// reads it back into empty tables.
//
//	m, err := backup.Run(ctx, client, backup.Dir("/backups/monday"), backup.Options{})
//	report, err := backup.Restore(ctx, other, backup.Dir("/backups/monday"), backup.RestoreOptions{})
//
// # The idea
//
// A backup reads everything at one timestamp, which a hold protects from collection. It is what one
// transaction would have seen, however long the backup takes and whatever programs write meanwhile.
// Tables are cut into ranges of rows, ranges into chunks. A chunk is one object, compressed and
// checksummed. The manifest lists the chunks and is written last: a backup is complete exactly if
// it has a manifest.
//
// A snapshot at the same timestamp can be read again. So an interrupted backup resumes where each
// range ended, and its result is the same as that of an uninterrupted one. If its hold has ended
// meanwhile, resuming fails with ErrHoldGone.
//
// # What is in it
//
// A backup holds the schema; all values; deletions that an observer may not know of; for each
// change of an observed cell, which observers have acknowledged it and whether it is still
// notified; weak notifications; and parked observers. Package percolator/internal/transfer
// describes how it finds them at one timestamp and how it writes them back. A backup leaves out
// older versions, commit timestamps, locks (it resolves them), index entries (a restore derives
// them from the values: copying would cost space and carry over damage), positions of loads and
// backfills, and the record of the oracle.
//
// # Invariants
//
//   - No object is ever changed: a name is written once with its content, except plan.json and the
//     manifest, whose names are fixed.
//   - Descriptors of chunks (progress/) are written after their chunk, the manifest after all
//     descriptors.
//   - A chunk is checked against its checksum before anything of it is applied.
//   - A restore that is unfinished is visible to every client (admin.ErrRestoring), and can be
//     repeated in any part.
//
// # Rejected
//
// A copy of the Bigtable tables as they are, locks and versions included, like Bigtable's own
// backups: it is consistent within a row only, so it could hold half of a transaction, and its
// timestamps belong to one oracle. Also rejected: one progress object, rewritten after each chunk.
// It would grow with the backup, and its cost with the square.
package backup

import "errors"

// Errors besides those of package percolator, of the Store, and of the context.
var (
	// ErrComplete: the store holds a complete backup already. It holds one only; choose another.
	ErrComplete = errors.New("there is a complete backup here already")
	// ErrHoldGone: the hold of an interrupted backup has ended, so its snapshot may have been
	// collected. Restart the backup.
	ErrHoldGone = errors.New("the hold of this backup has ended")
	// ErrIncomplete: there is no manifest. The backup has not finished, or none was started.
	ErrIncomplete = errors.New("there is no complete backup here")
	// ErrDamaged: an object is missing or differs from what was written.
	ErrDamaged = errors.New("damaged")
	// ErrOtherPlan: the backup started here has other tables, or comes from an instance with another
	// schema. Restart it, or choose another store.
	ErrOtherPlan = errors.New("another backup was started here")
)
