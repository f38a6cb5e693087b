package percolator

import (
	"errors"
	"sync/atomic"
	"time"
)

// counters are a client's counts since NewClient, each incremented where the thing happens.
type counters struct {
	transactions, conflicts, aborts                       atomic.Int64
	rolledForward, rolledBack, notifications              atomic.Int64
	readRows, checkAndMutate, mutateRows, samples, oracle atomic.Int64
	rowsRead, rowsMutated                                 atomic.Int64
	lateRecords, unknown                                  atomic.Int64

	lockWaits, lockWaitTime, lockWaiting atomic.Int64
	phaseTwoLeft                         atomic.Int64
	prefetched, prefetchUsed             atomic.Int64
	hintsLeft, hintsLost, hintsTaken     atomic.Int64
	cycles, cyclesFailed, collected      atomic.Int64

	latency [operations]latency
}

// ended counts a transaction by how its commit ended.
func (n *counters) ended(err error) {
	switch {
	case err == nil:
		n.transactions.Add(1)
	case errors.Is(err, ErrOutcomeUnknown):
		n.unknown.Add(1)
	case errors.Is(err, ErrConflict):
		n.conflicts.Add(1)
	default:
		n.aborts.Add(1)
	}
}

// Stats is a reading of a client's counters since NewClient.
type Stats struct {
	Transactions              int64 // committed with at least one write or notification
	Conflicts                 int64 // attempts that ended in ErrConflict
	Aborts                    int64 // attempts that were rolled back for another reason
	RolledForward, RolledBack int64 // cells of other transactions that lock resolution settled
	Notifications             int64 // notify cells written
	// Requests counts calls by kind: "ReadRows", "CheckAndMutateRow", "MutateRows", "SampleRowKeys" and "Oracle". Retries
	// inside Google's client are not seen.
	Requests              map[string]int64
	RowsRead, RowsMutated int64
	Unknown               int64 // commits that ended in ErrOutcomeUnknown
	// LateRecords counts put records found without their data below the mark: traces of commits that landed after
	// collection, read as absent.
	LateRecords int64

	LockWaits    int64         // reads that met a lock, and had to wait for its transaction or to settle it
	LockWaitTime time.Duration // how long they took for that, all together

	// Latency counts how long calls took, by operation: "begin", "get", "get_multi", "scan" (each page), "commit" (with
	// writes), and the requests by the names that they have in Requests, but for "SampleRowKeys". Reads that the snapshot
	// already knew, or that the transaction had written, are not among them. Failed calls are.
	Latency map[string]LatencyCounts
}

// read is a reading of all counters, one after the other.
func (n *counters) read() Stats {
	s := Stats{
		Transactions: n.transactions.Load(), Conflicts: n.conflicts.Load(), Aborts: n.aborts.Load(),
		RolledForward: n.rolledForward.Load(), RolledBack: n.rolledBack.Load(), Notifications: n.notifications.Load(),
		Requests: map[string]int64{
			"ReadRows": n.readRows.Load(), "CheckAndMutateRow": n.checkAndMutate.Load(), "MutateRows": n.mutateRows.Load(),
			"SampleRowKeys": n.samples.Load(), "Oracle": n.oracle.Load(),
		},
		RowsRead: n.rowsRead.Load(), RowsMutated: n.rowsMutated.Load(), LateRecords: n.lateRecords.Load(), Unknown: n.unknown.Load(),
		LockWaits: n.lockWaits.Load(), LockWaitTime: time.Duration(n.lockWaitTime.Load()),
		Latency: make(map[string]LatencyCounts, operations),
	}
	for op := range operations {
		s.Latency[op.String()] = n.latency[op].read()
	}
	return s
}
