// Package workload makes transactions at random, against any [percolator.Client], and records what they saw in a [history.History]:
//
//	appends    to lists, some of them to several at once; observers copy the lists
//	transfers  between accounts whose sum is constant
//	registers  counters that only grow, rows whose columns are always equal, cells that are inserted and deleted
//	permute    a ring of rows, each naming the next, that stays one cycle
//	duty       two people of whom one is always on duty, which takes locking reads
//	people     with a unique and a plain index
//	pages      that are published once, which observers copy, and withdrawn later
//	pokes      weak notifications
//	views      scans, index scans, batched reads, reads of the past, snapshots that last, snapshots under a hold
//	sweeps     old receipts are found by scans and deleted
//
// Almost every transaction writes a receipt: a row of its own with its number. It is what proves, in the end, whether a transaction
// committed whose client never learned of it; and being read by nobody else for a long time, it is the cold secondary that crashes
// leave behind.
package workload
