// Package combinequeue adds to popular totals without conflicts.
//
// A counter that every transaction reads and writes is a bottleneck: of concurrent ones, one
// commits. Section 3.3 of the paper meets that in TPC-E, where each trade adds to a broker's
// commission, and names the way out: write the increments to a side table and aggregate them later.
// This package is that side table.
//
//	queue, err := combinequeue.New(combinequeue.Config[int64]{
//		Values:  percolator.Int64("commission_queue", "commission"),
//		Combine: func(a, b int64) int64 { return a + b },
//	})
//	schema.Tables = append(schema.Tables, queue.Table())
//
//	err = queue.Add(tx, broker, 30)                       // in any transaction, without conflicts
//	queue.ObserveBatch(registry, queue.Into(total))       // in the workers: folds into a column
//	now, err := queue.Value(ctx, snapshot, total, broker) // folded or not, exact in every snapshot
//
// # What is guaranteed
//
//   - A contribution counts if and only if the transaction that added it commits. It is folded
//     exactly once: the transaction that applies it also deletes it, and two that would apply the
//     same one conflict on the deletion (docs/internals/PROTOCOL.md, I2).
//   - Adds conflict with nothing, neither with each other nor with folds. (Their transactions may,
//     on other cells.)
//   - In every snapshot, the applied total and the pending contributions together are the
//     contributions of the transactions that had committed by then.
//   - Contributions are combined in no particular order: Combine has to be associative and
//     commutative. Floating-point sums differ in the last bits from run to run.
//
// # How it is stored
//
// A key belongs to one of Config.Buckets buckets. A contribution is a separate cell, named after
// the start timestamp of its transaction and the key; several contributions of one transaction to
// one key are combined before they are written. The row is named after the bucket and a slice of
// 2²⁴ ticks (4.1 s) of start timestamps, and divided into Config.Shards rows that share its writes.
// Rows stay small however popular a key is. A transaction writes one row and one weak notification
// for each bucket that its keys fall into, 16 at most by default.
//
// Folded contributions stay in the table as tombstones until they are collected. Hence the slices:
// a fold reads the notified one, not everything the bucket has seen within the retention. Pending
// and Value do read the whole bucket (more Buckets make them cheaper): use them where exactness
// matters, and the total alone elsewhere.
//
// # Folding
//
// Each bucket has a weak column and an observer. A fold takes a bounded number of contributions,
// combines those of one key, applies them, deletes them, and notifies itself if more are left. That
// is sound: the notification carries the run's commit timestamp, and a run erases notifications
// only up to its start timestamp (I11, I13). A worker runs one fold of a bucket at a time, so that
// folds do not contend for totals. Folds of one bucket in different workers may conflict; then one
// of them is repeated. The more is added, the more each fold takes; observers.Collapse makes it
// wait for more, and observers.After until the contributors are idle.
//
// A fold has to know the status of every transaction that began before it and contributed (I15).
// Commits in flight take milliseconds. A writer that has died holds its cells for the time to live
// of its locks or until its session ends. After Config.LockWait the fold skips the rows that hold
// them and takes the rest, so that only a sixteenth of one slice of one bucket waits. Pending and
// Value cannot skip: they wait until their context ends.
//
// An apply function that fails for one key holds up the slice of the bucket; after
// Config.MaxAttempts the worker parks it like every observer's cell. Fix the function, then retry.
// Dropping it (observers.Drop) leaves its contributions pending for good.
package combinequeue
