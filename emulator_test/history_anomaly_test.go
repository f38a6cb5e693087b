package emulator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// anomalyKind names a sort of anomaly.
type anomalyKind string

// The anomalies.
const (
	anomalyInternal      anomalyKind = "internal"             // a transaction does not see its own writes, or one cell twice the same
	anomalyAbortedRead   anomalyKind = "G1a"                  // read of a write of an aborted transaction
	anomalyIntermediate  anomalyKind = "G1b"                  // read of a write that its own transaction replaced
	anomalyThinAir       anomalyKind = "thin air"             // read of a value that nobody wrote
	anomalyStaleRead     anomalyKind = "stale read"           // a version older than the newest below the snapshot, or no version where there is one
	anomalyFutureRead    anomalyKind = "future read"          // a version committed above the snapshot
	anomalyScanOrder     anomalyKind = "scan order"           // entries out of order or twice
	anomalyOverlap       anomalyKind = "overlap"              // two writers of one cell at the same time
	anomalyLostUpdate    anomalyKind = "lost update"          // an overlap of transactions that had read the cell before
	anomalyTimestamps    anomalyKind = "timestamps"           // not unique, or a commit not above its start
	anomalyRealTime      anomalyKind = "real time"            // began after another was acknowledged, with a smaller timestamp
	anomalyHalfCommit    anomalyKind = "two commits"          // one transaction seen with two commit timestamps
	anomalyAbortedRecord anomalyKind = "record of an abort"   // in the raw tables
	anomalyCommittedUndo anomalyKind = "marker of a commit"   // in the raw tables
	anomalyUnknownRecord anomalyKind = "record of nobody"     // in the raw tables
	anomalyUnplaced      anomalyKind = "unplaced"             // seen to be committed, but no scan tells when: a fault of the workload
	anomalyListOrder     anomalyKind = "list order"           // a list that is not its predecessor and the appended elements
	anomalyUnique        anomalyKind = "unique index"         // two rows with one value
	anomalyDoubleRun     anomalyKind = "observed twice"       // two runs of an observer committed for one change
	anomalyStaleRun      anomalyKind = "observed out of date" // a run for a change that was not the newest in its snapshot
	anomalyUnobserved    anomalyKind = "not observed"         // a change that nobody has run for
	anomalyInvariant     anomalyKind = "invariant"            // of the application
	anomalyG0            anomalyKind = "G0"                   // cycle of writes
	anomalyG1c           anomalyKind = "G1c"                  // cycle of writes and reads of writes
	anomalyGSingle       anomalyKind = "G-single"             // cycle with one anti-dependency
	anomalyGNonadjacent  anomalyKind = "G-nonadjacent"        // cycle without adjacent anti-dependencies
	realTimeSuffix                   = "-realtime"            // of a cycle with real-time edges
)

// anomaly is one thing that must not be, in words.
type anomaly struct {
	Kind anomalyKind `json:"kind"`
	Text string      `json:"text"` // the transactions and cells involved
}

func (a anomaly) String() string { return fmt.Sprintf("%s: %s", a.Kind, a.Text) }

// keptPerKind is how many anomalies of one kind are told in words.
const keptPerKind = 10

// historyReport is what Check found.
type historyReport struct {
	Transactions int `json:"transactions"` // recorded: attempts, snapshots and runs of observers
	Committed    int `json:"committed"`    // acknowledged, or found to be
	Aborted      int `json:"aborted"`      // definitely, or found to be
	Resolved     int `json:"resolved"`     // of those, unknown ones that were found to be committed

	Reads    int `json:"reads"`    // reads that were compared with the version that they had to see
	Scans    int `json:"scans"`    // and scans
	Versions int `json:"versions"` // committed puts and deletes
	Edges    int `json:"edges"`    // dependencies in which cycles were searched

	Anomalies []anomaly           `json:"anomalies"` // at most ten of a kind
	Counts    map[anomalyKind]int `json:"counts"`    // all of them
}

func (r *historyReport) add(k anomalyKind, format string, args ...any) {
	if r.Counts == nil {
		r.Counts = map[anomalyKind]int{}
	}
	if r.Counts[k]++; r.Counts[k] <= keptPerKind {
		r.Anomalies = append(r.Anomalies, anomaly{k, fmt.Sprintf(format, args...)})
	}
}

// Found is the number of anomalies.
func (r *historyReport) Found() (n int) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// Kinds lists the kinds of anomalies found, in order.
func (r *historyReport) Kinds() []anomalyKind {
	var ks []anomalyKind
	for k := range r.Counts {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// String is the report for people.
func (r *historyReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history: %d transactions, %d committed (%d of them found to be), %d aborted; %d reads, %d scans, %d versions, %d dependencies: ",
		r.Transactions, r.Committed, r.Resolved, r.Aborted, r.Reads, r.Scans, r.Versions, r.Edges)
	if r.Found() == 0 {
		b.WriteString("no anomalies\n")
		return b.String()
	}
	fmt.Fprintf(&b, "%d anomalies\n", r.Found())
	for _, k := range r.Kinds() {
		fmt.Fprintf(&b, "  %6d %s\n", r.Counts[k], k)
	}
	for _, a := range r.Anomalies {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	return b.String()
}

// JSON is the report for programs.
func (r *historyReport) JSON() ([]byte, error) { return json.Marshal(r) }
