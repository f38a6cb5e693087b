// Package backup writes a consistent snapshot of an instance to a directory or an object store, and
// reads it back into empty tables.
//
//	m, err := backup.Run(ctx, client, backup.Dir("/backups/monday"), backup.Options{})
//	report, err := backup.Restore(ctx, other, backup.Dir("/backups/monday"), backup.RestoreOptions{})
//
// # The idea
//
// Everything is read at one timestamp, which a hold protects from collection: so a backup is what
// one transaction would have seen, however long it takes and whoever writes meanwhile. Tables are
// cut into ranges of rows, ranges into chunks; a chunk is an object, compressed and with a
// checksum. The manifest, which lists the chunks, is written last: a backup is complete exactly if
// it has one.
//
// A snapshot at the same timestamp can be read again. So a backup that was broken off is resumed
// where each of its ranges ended, and its result is the same as if nothing had happened; unless its
// hold has ended meanwhile, which is an error (ErrHoldGone).
//
// # What is in it
//
// The schema; all values; deletions of which an observer may not know; for each change of an
// observed cell, which observers have acknowledged it and whether it is still notified; weak
// notifications; observers that are parked for something. How that is found out at one timestamp is
// described in percolator/export.go, how it is written again in percolator/restore.go. Not in it:
// older versions, commit timestamps, locks (they are resolved), the entries of indexes (they follow
// from the values, and a restore writes them anew: copying would cost space and carry over damage),
// positions of loads and backfills, the oracle's record.
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
// A copy of the Bigtable tables as they are, locks and versions included, as Bigtable's own backups
// make it: it is consistent within a row only, so a transaction would be there in half its rows,
// and its timestamps belong to one oracle. Also rejected: one progress object that is written anew
// after each chunk. It would grow with the backup, and its cost with the square.
package backup

import "errors"

// Errors besides those of package percolator, of the Store, and of the context.
var (
	// ErrComplete: there is a complete backup already. A store holds one; choose another place.
	ErrComplete = errors.New("there is a complete backup here already")
	// ErrHoldGone: the hold of a backup that was broken off has ended, so its timestamp may have been
	// collected. Restart it.
	ErrHoldGone = errors.New("the hold of this backup has ended")
	// ErrIncomplete: there is no manifest. The backup has not finished, or there is none.
	ErrIncomplete = errors.New("there is no complete backup here")
	// ErrDamaged: an object is missing, or is not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrOtherPlan: what was begun here has other tables, or comes from an instance with another
	// schema. Restart it, or choose another place.
	ErrOtherPlan = errors.New("another backup was begun here")
)
