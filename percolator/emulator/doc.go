// Package emulator runs the official Cloud Bigtable emulator inside the process, so that tests,
// demos and development need no installation and no credentials.
//
// The emulator keeps everything in memory and forgets it when it stops, unless Frozen.Save has
// saved it for Restore. In front of it this package refuses what Cloud Bigtable refuses, with its
// status:
// requests beyond the documented sizes, mutation lists of which one is bad (nothing of them is
// applied), conditional mutations under an app profile that does not allow them ([AppProfiles]),
// and what a caller has no right to ([Principals]). [OnDisks] adds what reads cost. Clients connect
// as in production, through Google's pool of primed connections.
//
// The package repairs what would make a correct client misbehave:
//
//   - A row that is being read shares its list of column names with the stored row. While another
//     column of the same row and family is added or erased, such a read can miss an unchanged
//     column or return it twice. Reads and mutations of one table are therefore kept apart by a
//     lock.
//   - Rows are read under that lock into a bounded buffer, one slice of the table at a time, and
//     sent after the lock was released. A scan whose consumer writes to the table that it scans, or
//     does not read on, holds nobody up.
//   - A request that the emulator does not implement is answered with the code Unimplemented; the
//     emulator on its own would take the process down.
package emulator
