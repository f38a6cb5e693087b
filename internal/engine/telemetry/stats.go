package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// Counters are a client's counts since NewClient, each incremented where the thing happens.
type Counters struct {
	Transactions, Conflicts, Aborts                       atomic.Int64
	RolledForward, RolledBack, Notifications              atomic.Int64
	ReadRows, CheckAndMutate, MutateRows, Samples, Oracle atomic.Int64
	RowsRead, LargeRows, RowsMutated                      atomic.Int64
	LateRecords, Unknown                                  atomic.Int64

	LockWaits, LockWaitTime, LockWaiting atomic.Int64
	PhaseTwoLeft                         atomic.Int64
	Prefetched, PrefetchUsed             atomic.Int64
	HintsLeft, HintsLost, HintsTaken     atomic.Int64
	Cycles, CyclesFailed, Collected      atomic.Int64

	Appends, AppendsFailed, Hedges atomic.Int64 // rows of the journal
	Looks, RowsLooked              atomic.Int64 // at what entries name
	Undecodable                    atomic.Int64 // cells in rows that were looked at
	Turns, TurnsFailed             atomic.Int64 // of an adopter
	FoundByCollector, FoundBySweep atomic.Int64 // work that the journal should have led to before
	// Gauges of the adopter: streams, and unsettled rows of the dead.
	Streams, Adopted atomic.Int64
	AdoptedOldest    atomic.Int64 // the oldest start timestamp in these; 0: none

	Latency [operations]latency
}

// Ended counts a transaction by how its commit ended.
func (n *Counters) Ended(err error) {
	switch {
	case err == nil:
		n.Transactions.Add(1)
	case errors.Is(err, model.ErrOutcomeUnknown):
		n.Unknown.Add(1)
	case errors.Is(err, model.ErrConflict):
		n.Conflicts.Add(1)
	default:
		n.Aborts.Add(1)
	}
}

// Turned counts a turn of an adopter.
func (n *Counters) Turned(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		n.TurnsFailed.Add(1)
		return
	}
	n.Turns.Add(1)
}

// Stats is a reading of a client's counters since NewClient.
type Stats struct {
	Transactions              int64 // committed with at least one write or notification
	Conflicts                 int64 // attempts that ended in ErrConflict
	Aborts                    int64 // attempts that were rolled back for another reason
	RolledForward, RolledBack int64 // cells of other transactions that lock resolution resolved
	Notifications             int64 // notify cells written
	// Requests counts calls by kind: "ReadRows", "CheckAndMutateRow", "MutateRows", "SampleRowKeys"
	// and "Oracle". It does not see retries inside Google's client.
	Requests              map[string]int64
	RowsRead, RowsMutated int64
	Unknown               int64 // commits that ended in ErrOutcomeUnknown
	// LateRecords counts put records found without their data below the GC watermark: traces of
	// commits that landed after collection. Reads take them as absent.
	LateRecords int64

	LockWaits    int64         // reads that waited at a lock or resolved it
	LockWaitTime time.Duration // how long all of them together took for that

	Contention Contention

	// Latency counts how long calls took, by operation: "begin", "get", "get_multi", "scan" (each
	// page), "commit" (with writes), and the requests by their names in Requests, but for
	// "SampleRowKeys". It includes failed calls, but no reads that the snapshot or the
	// transaction's own writes answered.
	Latency map[string]LatencyCounts
}

// Read reads all counters, one after the other.
func (n *Counters) Read() Stats {
	s := Stats{
		Transactions: n.Transactions.Load(), Conflicts: n.Conflicts.Load(), Aborts: n.Aborts.Load(),
		RolledForward: n.RolledForward.Load(), RolledBack: n.RolledBack.Load(), Notifications: n.Notifications.Load(),
		Requests: map[string]int64{
			"ReadRows": n.ReadRows.Load(), "CheckAndMutateRow": n.CheckAndMutate.Load(), "MutateRows": n.MutateRows.Load(),
			"SampleRowKeys": n.Samples.Load(), "Oracle": n.Oracle.Load(),
		},
		RowsRead: n.RowsRead.Load(), RowsMutated: n.RowsMutated.Load(), LateRecords: n.LateRecords.Load(), Unknown: n.Unknown.Load(),
		LockWaits: n.LockWaits.Load(), LockWaitTime: time.Duration(n.LockWaitTime.Load()),
		Latency: make(map[string]LatencyCounts, operations),
	}
	for op := range operations {
		s.Latency[op.String()] = n.Latency[op].read()
	}
	return s
}

// Contention is how a client's Updates queue now, and where its transactions have conflicted.
type Contention struct {
	Attempts int // of Updates, under way
	Waiting  int // Updates that wait for an attempt
	Limit    int // of attempts at once

	Cells []ContendedCell // at most ten, the most contended first
}

// ContendedCell is a cell on which transactions of a client have conflicted.
type ContendedCell struct {
	Cell      string // as errors name it, at most 256 bytes of that; an acknowledgment by its observer, entries of an index as one
	Conflicts int64  // of which those of a minute and more ago count half, a quarter, and so on
	Waiting   int    // Updates that wait for their turn at it
}
