// Package percolator runs multi-row ACID transactions on Google Cloud Bigtable: the protocol of "Large-scale Incremental
// Processing Using Distributed Transactions and Notifications" (Peng and Dabek, OSDI 2010), whose sections are cited
// throughout, with docs/PROTOCOL.md as the precise description of what is built here and of its numbered invariants.
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
// Isolation is snapshot isolation: all reads see the state at the start timestamp, and of two concurrent transactions that write
// one cell at most one commits. Write skew is possible; GetForUpdate prevents it for the cells on which it is used, LockReads for
// everything that a transaction reads.
//
// # Where to find the protocol
//
//	celllayout.go      the four families that make a cell, and their encodings
//	prewrite.go        locks and conflict check, one request a row
//	commit.go          the commit point, unknown outcomes, phase two
//	rollback.go        a transaction's own abort
//	lockresolution.go  other people's locks: roll forward, roll back
//	read.go            a snapshot read in one request; readbatch.go joins them
//	scan.go            ranges, in pages
//	ack.go, notify.go  acknowledgments and notifications, on which package observers is built
//	index.go           secondary indexes; backfill.go and verifyindex.go for tables in use
//	collector.go       old versions: safepoint, drain, lock resolution, mark (collect.go), what is garbage (collectible.go); hold.go
//
// # Limits
//
// Row keys have 1 to 4096 bytes, columns 1 to 2048 without 0x00, values at most 100 MB (10 MB advised), a transaction at most
// 512 MiB and 30,000 columns a row. A commit has at most Config.MaxParallelism requests in flight. Every request ends after 30 s at
// the latest (Timing). Versions older than Config.Retention are removed, holds keep them for at most 7 days at a time. What exceeds a limit is refused with ErrTooLarge before anything is sent.
package percolator
