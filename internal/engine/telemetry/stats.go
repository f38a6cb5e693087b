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
	SilentConnections                                     atomic.Int64 // now
	LateRecords, Unknown                                  atomic.Int64

	LockWaits, LockWaitTime, LockWaiting atomic.Int64
	PhaseTwoLeft                         atomic.Int64
	Prefetched, PrefetchUsed             atomic.Int64
	HintsLeft, HintsLost, HintsTaken     atomic.Int64
	Cycles, CyclesFailed, Collected      atomic.Int64
	RowsUnread, RowsContradicted         atomic.Int64 // by collection

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

// Read reads all counters, one after the other.
func (n *Counters) Read() model.Stats {
	s := model.Stats{
		Transactions: n.Transactions.Load(), Conflicts: n.Conflicts.Load(), Aborts: n.Aborts.Load(),
		RolledForward: n.RolledForward.Load(), RolledBack: n.RolledBack.Load(), Notifications: n.Notifications.Load(),
		Requests: map[string]int64{
			"ReadRows": n.ReadRows.Load(), "CheckAndMutateRow": n.CheckAndMutate.Load(), "MutateRows": n.MutateRows.Load(),
			"SampleRowKeys": n.Samples.Load(), "Oracle": n.Oracle.Load(),
		},
		RowsRead: n.RowsRead.Load(), RowsMutated: n.RowsMutated.Load(), LateRecords: n.LateRecords.Load(), Unknown: n.Unknown.Load(),
		LockWaits: n.LockWaits.Load(), LockWaitTime: time.Duration(n.LockWaitTime.Load()),
		Latency: make(map[string]model.LatencyCounts, operations),
	}
	for op := range operations {
		s.Latency[op.String()] = n.Latency[op].read()
	}
	return s
}
