package telemetry

import (
	"sort"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// latency counts what LatencyCounts is a reading of.
type latency struct {
	buckets [len(model.LatencyBounds) + 1]atomic.Int64
	sum     atomic.Int64
}

// Add counts a call that took d.
func (l *latency) Add(d time.Duration) {
	i := sort.Search(len(model.LatencyBounds), func(i int) bool { return d <= model.LatencyBounds[i] })
	l.buckets[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *latency) read() (out model.LatencyCounts) {
	for i := range l.buckets {
		out.Buckets[i] = l.buckets[i].Load()
		out.Count += out.Buckets[i]
	}
	out.Sum = time.Duration(l.sum.Load())
	return out
}

// Operation is a kind of call whose latency the client counts.
type Operation int

// The operations of a client, and its requests.
const (
	OpBegin Operation = iota
	OpGet
	OpGetMulti
	OpScan
	OpCommit
	OpOracle
	OpReadRows
	OpCheckAndMutate
	OpMutateRows
	operations
)

// String is the operation's key in Stats.Latency, and for requests also in Stats.Requests.
func (op Operation) String() string {
	return [...]string{"begin", "get", "get_multi", "scan", "commit", "Oracle", "ReadRows", "CheckAndMutateRow", "MutateRows"}[op]
}
