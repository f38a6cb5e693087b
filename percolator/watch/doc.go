// Package watch streams changes: every committed version of chosen columns, in the order of commit
// timestamps, at least once. It follows the journal, so it costs what changes, whatever the size of
// the tables. It needs no observer, no declaration in the schema, and nothing in transactions.
//
// A consumer gets batches of changes, each with a position. One that stores the position together
// with its results, and begins there next time, sees each change exactly once; one that stores it
// afterwards sees some again after a crash. For a watcher with a name the instance stores the
// position, with a hold that keeps collection below it.
package watch

// I25: every change that committed at or below a watcher's position was handed out before. A round
// moves the position P to a frontier F:
//
//	1. a timestamp N from the oracle
//	2. the meta row: the journal is complete from P on, and it was not off when N was given
//	3. what was appended to the journal, in all streams, with or without header
//	4. for each transaction of an entry, at or below N: its primary
//	5. F := the least start timestamp of those that hold a lock on their primary; N if none does
//	6. of those that committed in (P, F]: their rows, and what they wrote there
//
// Why nothing is missed. Let a transaction commit at c in (P, F]. Its entry was acknowledged before
// it asked for c (J1), and c ≤ N, so it asked before N was given (I1): step 3, of this round or a
// former one, finds every part of the entry, unless it was collected. It was not: the GC watermark
// is below P, checked after the data has arrived as for a snapshot at P (I16), and an entry stays
// while its rows hold a record of it above the watermark, or its lock (J7). Its primary was locked
// before it asked for c (I5). So step 4 finds the record, with c, or the lock, and then F is at
// most its start timestamp, below c. Nothing on the primary means that it commits above N, if ever:
// it stays for the next round. In its rows each cell that it wrote holds the record or, until phase
// two ends, the lock and the value beneath it: both tell the same (I15).
//
// Why a client that knows no journal any more, or not yet, hides nothing. It learns of that from
// the meta row, which step 2 reads after N: what commits at or below N without an entry knew
// before. A journal that was built has all entries of what committed above its Since (J9).
//
// A transaction that is dead is rolled back as an adopter would (J5). One without a trace on its
// primary is given up when its stream's low position has passed it, read before N was given: it was
// decided (J4), and if it had committed, then below N (I1), where its record would be seen; or it
// stands above, where the next round reads it.
//
// A transaction whose primary was in a table that was dropped is decided by its rows: each of its
// locks was resolved before the schema forgot the table (I26).
//
// In pieces. A stream is read up to its first row with an entry above the frontier that is aimed
// at, the target: what is behind it commits above the target, since its client had received that
// start timestamp before it appended the row (J1). So a backlog is worked off in pieces of time
// that fit into memory.
//
// Within a transaction. A batch that is full may end within a transaction. Its position stays
// below, and counts what was handed out of the transaction, in the order of tables, rows and
// columns: each watcher of the same columns finds the same changes in the same order.
//
// Rejected: the write records of the rows alone, without the primaries. Who finds nothing in the
// rows of an entry does not know whether its transaction is about to write there. Rejected: to wait
// for every transaction that is alive. Only one that may have its commit timestamp already holds
// the frontier, as it holds any reader.
