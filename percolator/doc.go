// Package percolator runs multi-row ACID transactions on Google Cloud Bigtable. It implements the
// protocol of "Large-scale Incremental Processing Using Distributed Transactions and Notifications"
// (Peng and Dabek, OSDI 2010). Comments cite the sections of that paper; docs/internals/PROTOCOL.md
// describes precisely what this module builds, with numbered invariants (I1, I2, …).
//
// # Transactions
//
// Update runs a function in a transaction and repeats it after a conflict; View reads a snapshot:
//
//	ts, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
//		bob, err := balance.Get(ctx, tx, "Bob")
//		if err != nil {
//			return err
//		}
//		joe, err := balance.Get(ctx, tx, "Joe")
//		if err != nil {
//			return err
//		}
//		return errors.Join(balance.Set(tx, "Bob", bob-7), balance.Set(tx, "Joe", joe+7))
//	})
//
// Isolation is snapshot isolation: all reads see the state at the start timestamp, and of two
// concurrent transactions that write one cell at most one commits. Write skew is possible.
// GetForUpdate prevents it for single cells, LockReads for everything that a transaction reads.
//
// Types such as Schema, ScanOptions and Range are those of package model:
// go doc github.com/gopercolator/percolator/percolator/model shows their fields.
//
// # Where to find the protocol
//
//	internal/engine/layout  the four families that make a cell, and their encodings
//	internal/engine/commit  prewrite.go: locks and conflict check, one request a row
//	                        commit.go: the commit point; secondaries.go: phase two
//	                        outcome.go: unknown outcomes
//	                        rollback.go: a transaction's own abort
//	                        ack.go, notify.go: what package observers is built on
//	                        index.go: secondary indexes
//	internal/engine/locks   locks of other transactions: roll forward, roll back
//	internal/engine/reads   read.go: a snapshot read in one request; batch.go joins requests
//	                        scan.go: ranges, in pages
//	internal/engine/meta    the stored schema, and holds
//	percolator/internal/gc  old versions: safepoint, drain, lock resolution, GC watermark
//	percolator/admin        what operators call: BackfillIndex, VerifyIndex, TakeHold, NewCollector
//
// # Limits
//
// A row key has 1 to 4096 bytes, a column 1 to 2048 without 0x00, a value at most 100 MB (Bigtable
// advises 10 MB). A transaction has at most 512 MiB, and 30,000 columns in one row. The client
// refuses more with ErrTooLarge before it sends anything.
//
// A commit has at most Config.MaxParallelism requests in flight. Every request ends within
// Timing.RequestLifetime, at most 30 s. Collection removes versions older than Config.Retention; a
// hold keeps them for at most 7 days at a time.
package percolator
