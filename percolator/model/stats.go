package model

import (
	"slices"
	"time"

	"github.com/gopercolator/percolator/tso"
)

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

	// Overloaded names the tables on which Bigtable asks the client to slow down, now.
	Overloaded []string

	// Latency counts how long calls took, by operation: "begin", "get", "get_multi", "scan" (each
	// page), "commit" (with writes), and the requests by their names in Requests, but for
	// "SampleRowKeys". It includes failed calls, but no reads that the snapshot or the
	// transaction's own writes answered.
	Latency map[string]LatencyCounts
}

// Contention is how a client's Updates queue now, and where its transactions have conflicted.
type Contention struct {
	Attempts int // of Updates, in flight
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

const (
	// MaxWorkers is how many live workers are listed. Each counts them before it stores its own
	// entry, so workers that start at the same time may exceed it. A worker without a place
	// searches everything.
	MaxWorkers = 256
	// MaxReports is how many clients and workers report, the last MaxWorkers of them only workers.
	// Each counts them before it stores its first report, so those that start at the same time may
	// exceed it.
	MaxReports = 1024 + MaxWorkers
)

// WorkerInfo is what a worker tells other workers and operators.
type WorkerInfo struct {
	Name      string        `json:"-"` // random, 1 to 64 bytes; it names the cell
	Session   string        // of its client with the oracle; "": none
	Started   tso.Timestamp // when it announced itself first
	Expires   tso.Timestamp // by the oracle's clock, unless it announces itself again
	Version   string        `json:",omitempty"` // of this module, as built
	Observers []string      `json:",omitempty"` // the names of its observers
	// Identifies its columns: workers with equal ones share a table.
	Columns string `json:",omitempty"`
	// Identifies its columns of which one worker runs all cells.
	Owns string `json:",omitempty"`

	// Takes are the columns that it takes, by table; nil if it does not tell. They are bytes
	// because JSON would damage names that are not text.
	Takes map[string][][]byte `json:",omitempty"`
}

// TakesColumn reports whether a worker takes a column. known is false if it does not tell.
func (w WorkerInfo) TakesColumn(table, column string) (takes, known bool) {
	return slices.ContainsFunc(w.Takes[table], func(name []byte) bool { return string(name) == column }), w.Takes != nil
}

// TableBounds are row keys that divide a table into parts with similar numbers of rows.
type TableBounds struct {
	Made tso.Timestamp // when a worker chose them
	Keys []string      // in order, without repetition
}

// Workers are the live workers and their bounds at one instant.
type Workers struct {
	Now    tso.Timestamp          // later than every timestamp in it
	Live   []WorkerInfo           // by name
	Bounds map[string]TableBounds // by table
}
