package model

import "time"

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
