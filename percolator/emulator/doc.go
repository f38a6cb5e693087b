// Package emulator runs the official Cloud Bigtable emulator inside the process, so that tests,
// demos and development need no installation and no credentials.
//
// The emulator keeps everything in memory and forgets it when it stops, unless Frozen.Save has
// saved it for Restore. In front of it this package refuses what Cloud Bigtable refuses, with its
// status: requests beyond the documented sizes, mutation lists with a bad mutation (nothing of them
// is applied), filters that the service does not take, more tables, families or outstanding
// mutations than it takes, rows that outgrow it, conditional mutations under an app profile that
// does not allow them ([AppProfiles]), and requests without permission ([Principals]). What is
// refused is from Google's documentation and from public reports, as are the statuses; where these
// name no status it is this package's choice. [OnDisks] adds the cost of reads. Clients connect as
// in production, through Google's pool of primed connections, or in the same process as functions
// ([Server.InProcess]).
//
// The package repairs what would make a correct client misbehave:
//
//   - A row being read shares its list of column names with the stored row. While another column of
//     the same row and family is added or erased, such a read can miss an unchanged column or
//     return it twice. A lock therefore keeps reads and mutations of one table apart.
//   - Rows are read under that lock into a bounded buffer, one slice of the table at a time, and
//     sent after the lock was released. A scan whose consumer writes to the same table, or stops
//     reading, holds up no one.
//   - A request that the emulator does not implement gets the code Unimplemented; the emulator on
//     its own would take the process down.
package emulator
