// Package exportqueue delivers what transactions write to systems outside the store: a search
// service, a cache, a message broker.
//
// A transaction cannot send a request to another system: it may run again after a conflict, or not
// commit at all. Instead it adds an [Entry] to a queue as one of its writes, and an observer
// delivers the entries of transactions that committed.
//
//	queue, err := exportqueue.New(exportqueue.Config{Table: "search_exports", Name: "search"})
//	schema.Tables = append(schema.Tables, queue.Table())
//
//	err = queue.Add(tx, page, document)                   // in any transaction that is not blind
//	queue.Observe(registry, client, func(ctx context.Context, batch []exportqueue.Entry) error {
//		return search.Send(ctx, batch)                // in the workers
//	})
//
// # What is guaranteed
//
//   - An entry is delivered if and only if the transaction that added it commits: at least once, as
//     long as some worker runs. The transaction that commits after the delivery function has
//     returned nil deletes it. If a worker dies in between, a commit fails or two workers run for
//     one partition at once, the entry is delivered again, possibly much later and after newer
//     entries.
//   - The entries of one call are of one partition, in the order of their start timestamps and,
//     within a transaction, of Add. All entries of a key are in one partition.
//   - If transaction B began after transaction A had committed, A's entries are first delivered no
//     later than B's of the same partition: in an earlier call, or earlier in the same one. That
//     holds whenever both wrote a common cell, because B conflicts unless it began after A had
//     committed: start order is commit order.
//
// # What is not
//
// Two transactions that overlap in time and write no common cell may be delivered in either order:
// the one with the earlier start timestamp may commit after the other was delivered. Partitions
// have no order among them.
//
// So the receiver should keep the highest (StartTS, Seq) of each key and ignore lower or equal
// ones. That also handles repetitions. It then keeps the state that the last transaction left,
// provided that the transactions that export a key write a common cell, such as the row whose state
// is exported. If they do not, neither order is right in the sense of the store.
//
// # How it works
//
// Entries lie in rows named after the partition and the start timestamp. A transaction also
// notifies, weakly, the slice of 2²⁴ ticks (4.1 s) that its start timestamp lies in. A run looks
// up the slices of its partition that carry notifications or locks, and reads them, oldest first. A
// notification is written before the commit request, and only a run that has seen what it was for
// erases it (docs/internals/PROTOCOL.md, I11, I13). Delivered entries stay as tombstones until they
// are collected, and cost reads until Bigtable has compacted its table. So a run reads dirty slices
// only, and looks for them from the stored position of its partition on (I22), which follows half
// of percolator.Config.Retention behind the clock, or the oldest dirty slice. A transaction of a
// client with a longer retention than the worker's may commit below the position: its entries are
// delivered, but may come late.
//
// To know the order, a run has to know the status of every transaction that began before its
// snapshot (I15). A writer that has died in the middle of a commit therefore holds up its partition
// for the time to live of its locks, or until its session ends.
//
// Each partition has a weak column and an observer, which a worker runs once at a time. The worker
// repeats a failed delivery with its pauses; after Config.MaxAttempts it parks the slice. Entries
// of later slices cannot overtake it: each makes one attempt at the whole partition, and waits with
// the parked slice when that fails too (I31). So a partition has one parked slice, and an operator
// who retries it, or the next entry, delivers everything once the receiver is up. Let the delivery
// function [Reject] what the receiver will never take: a refused entry leaves the queue for the
// table of dead letters, where `percolator exports` lists, retries and drops it. Do not drop a
// parked slice (observers.Drop). If later slices wait with it, nothing is given up: its entries,
// and theirs, are delivered with the next one. Otherwise its entries stay in the queue, where
// [Queue.Pending] shows them, and are not delivered. Workers of versions without the backlog
// deliver what waits with a parked slice late, with the next entry that another worker delivers.
//
// A delivery must end within nine tenths of the observer's timeout (observers.Timeout, 30 s), with
// which its context ends. Its entries are not locked meanwhile.
package exportqueue
