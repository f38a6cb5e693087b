// Package combinequeue adds to popular totals without conflicts.
//
// A counter that every transaction reads and writes is a bottleneck: of those that run at once, one
// commits. Section 3.3 of the paper meets that in TPC-E, where each trade adds to the commission of
// a broker, and names the way out: write the increments to a side table, and aggregate them later.
// This package is that side table.
//
//	queue, err := combinequeue.New(combinequeue.Config[int64]{
//		Values:  percolator.Int64("commission_queue", "commission"),
//		Combine: func(a, b int64) int64 { return a + b },
//	})
//	schema.Tables = append(schema.Tables, queue.Table())
//
//	err = queue.Add(tx, broker, 30)                         // in any transaction: reads nothing, conflicts with nothing
//	queue.ObserveBatch(registry, queue.Into(total))         // in the workers: folds what was added into a column
//	now, err := queue.Value(ctx, snapshot, total, broker)   // folded or not, exact in every snapshot
//
// # What is guaranteed
//
//   - A contribution counts if and only if the transaction that added it commits, and it is folded
//     exactly once: the transaction that applies it also deletes it, and two that would apply the
//     same one conflict on the deletion (docs/PROTOCOL.md, I2).
//   - Adds conflict with nothing, not with each other and not with folding. (Their transactions
//     may, on other cells.)
//   - In every snapshot, the total that was applied and what is pending together are the
//     contributions of the transactions that had committed by then.
//   - Contributions are combined in no particular order: Combine has to be associative and
//     commutative. With floating-point numbers, sums differ in the last bits from run to run.
//
// # How it is stored
//
// A key belongs to one of Config.Buckets buckets. A contribution is a cell of its own, named after
// the start timestamp of its transaction and the key; several of one transaction for one key are
// combined before they are written. The row is named after the bucket and a slice of 2²⁴ ticks (4.1
// s) of start timestamps, divided into 16 rows that share its writes: rows stay small however
// popular a key is, and a transaction writes one row for each bucket that its keys fall into, 16 at
// most unless told otherwise, and one weak notification for each.
//
// What was folded remains in the table as deleted cells until it is collected. That is why there
// are slices: a fold reads the one that was notified, and not what the bucket has seen within the
// retention. Pending and Value do read all of the bucket (more Buckets make them cheaper): use them
// where exactness matters, and the total alone elsewhere.
//
// # Folding
//
// Each bucket has a weak column and an observer. It takes a bounded number of contributions,
// combines those of one key, applies them, deletes them, and notifies itself if more are left. That
// is sound: the notification carries the run's commit timestamp, and a run erases notifications up
// to its start timestamp only (I11, I13). One fold of a bucket runs at a time in a worker, so that
// folds do not contend for totals; folds of one bucket in different workers may conflict, and one
// of them is repeated. The more is added, the more each fold takes; observers.Collapse makes it
// wait for more.
//
// A fold has to know the fate of every contribution that began before it (I15). Commits that are
// under way take milliseconds. A writer that has died holds its cells for the time to live of its
// locks or until its session ends: after Config.LockWait the fold leaves the rows that hold them
// aside and takes the rest, so what is held up is a sixteenth of one slice of one bucket. Pending
// and Value cannot do that: they wait until their context ends.
//
// An apply function that fails for one key holds up the slice of the bucket; after
// Config.MaxAttempts of the worker it is parked like every observer's cell. Retry it when the
// function is mended; to drop it (observers.Drop) leaves its contributions pending for good.
package combinequeue
