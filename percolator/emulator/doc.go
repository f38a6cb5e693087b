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
//
// The emulator takes a table's policy of automated backups, and forgets it: it makes no backups. It
// keeps deletion protection.
//
// What the package does not repair: some of what Google's emulator does takes time that grows with
// the square of a row's columns. On two busy cores, 8,000, 16,000 and 32,000 columns in each of two
// families took 1.4 s, 6 s and 15 s to write, and 3 s, 10 s and 34 s to read through a filter that
// interleaves whole families first, as watchers, collection and searches for changes do: some
// minutes for 100,000 columns, longer than such a request lives. Reads whose last filter is an
// interleave of column ranges take time in proportion (0.2 s for 32,000 columns), as this package
// evaluates that filter itself. Cloud Bigtable is not known to have this limit.
package emulator
