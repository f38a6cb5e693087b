// Package history judges what clients of a store saw. A [Recording] holds every transaction: what
// it read, wrote and scanned, when it began and ended, and what its client was told about its
// outcome. [Check] decides whether a store that keeps the promises of docs/internals/PROTOCOL.md
// could have answered like that. It does no I/O and knows nothing of how the store works.
//
// # What is checked
//
// Timestamps make most checks direct. Every read, whatever became of its transaction later, must
// equal the newest write committed below its snapshot, including absence and the completeness of
// scans and index scans. Two transactions that wrote one cell, or locked it as GetForUpdate does,
// must not overlap. Timestamps are unique, a commit timestamp is above the start timestamp, and a
// transaction that begins after another's commit was acknowledged has the greater start timestamp.
//
// Besides, and without using start timestamps, Check searches the dependencies between transactions
// for the cycles that snapshot isolation proscribes, in the terms of Adya ("Weak
// Consistency", 1999) and of Elle (Kingsbury and Alvaro, VLDB 2020):
//
//	G0             write cycle
//	G1a            read of an aborted write
//	G1b            read of a write that its own transaction replaced
//	G1c            cycle of writes and reads of writes
//	G-single       cycle with exactly one anti-dependency
//	G-nonadjacent  cycle in which no two anti-dependencies follow each other
//
// each also with real-time edges. Cycles with adjacent anti-dependencies (write skew, G2-item) are
// legal under snapshot isolation, unless the reads lock: a locking read orders its transaction like
// a write.
//
// At rest, observers have run for every change, and for none twice. Totals to which transactions
// contribute are, in every snapshot, the sum of what had committed. An ordered queue delivers what
// committed, all of it, in order.
//
// # Outcomes
//
// A client may not learn its outcome: it may have died, or the outcome may be unknown. What others
// read resolves such transactions, so the writes of a transaction must be attributable: a value
// that no other transaction writes to that cell, in a cell that is scanned in the end, because
// scans tell commit timestamps. A definite abort that shows up all the same, and an acknowledged
// commit that does not, are anomalies.
//
// # Long runs
//
// A [Checker] judges while the recording grows. Told up to which timestamp everything is complete,
// it judges that prefix once it is some thousand transactions long, and forgets it except for the
// versions and runs that later transactions depend on. What it keeps does not depend on the length
// of the run. It keeps transactions of unknown outcome until later reads decide them, with those
// that read their cells meanwhile.
//
// # Other judges
//
// [Snapshots] judges repeated reads at one timestamp, and [Index] an index against its table. Their
// findings belong in the report by [Recording.Judged].
//
// # Cost
//
// A recorded operation takes about 32 bytes and the interned value. Checking takes O(n log n) for n
// operations, where a scan counts for all cells that ever were in its range; a Checker looks at an
// operation about three times. BenchmarkCheck and BenchmarkWindows measure both.
package history
