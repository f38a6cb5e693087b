package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Kind names a sort of anomaly.
type Kind string

// The anomalies.
const (
	// A transaction misses its own writes, or reads a cell in two ways.
	anomalyInternal    Kind = "internal"
	anomalyAbortedRead Kind = "G1a" // read of a write of an aborted transaction
	// Read of a write that its transaction replaced.
	anomalyIntermediate Kind = "G1b"
	anomalyThinAir      Kind = "thin air" // read of a value that was never written
	// Older than the newest version below the snapshot, or none though one exists.
	anomalyStaleRead  Kind = "stale read"
	anomalyFutureRead Kind = "future read" // a version committed above the snapshot
	anomalyScanOrder  Kind = "scan order"  // entries out of order or twice
	anomalyOverlap    Kind = "overlap"     // two writers of one cell at the same time
	anomalyLostUpdate Kind = "lost update" // overlapping writers that had read the cell
	anomalyTimestamps Kind = "timestamps"  // duplicate, or a commit not above its start
	// Committed though its snapshot may be collected.
	anomalyTooOld Kind = "too old"
	// Began after an acknowledgment, with a smaller timestamp.
	anomalyRealTime      Kind = "real time"
	anomalyHalfCommit    Kind = "two commits"        // of one transaction
	anomalyAbortedRecord Kind = "record of an abort" // in the raw tables
	anomalyCommittedUndo Kind = "marker of a commit" // in the raw tables
	anomalyUnknownRecord Kind = "unknown record"     // in the raw tables
	// Committed, but no scan tells when: a fault of the workload.
	anomalyUnplaced Kind = "unplaced"
	// A list is not its predecessor plus the appended elements.
	anomalyListOrder Kind = "list order"
	anomalyUnique    Kind = "unique index"   // two rows with one value
	anomalyDoubleRun Kind = "observed twice" // two runs committed for one change
	// A run for a change that its snapshot had replaced.
	anomalyStaleRun   Kind = "observed out of date"
	anomalyUnobserved Kind = "not observed" // a change without a run
	anomalyUnexpired  Kind = "not deleted"  // an expired value whose observers wait
	anomalyDeletion   Kind = "deletion"     // by an operator or a collector, of too much
	// A change omitted, delivered late or invented.
	anomalyWatched      Kind = "watched"
	anomalyUndue        Kind = "not due"       // exported before its observer ran
	anomalyInvariant    Kind = "invariant"     // of the application
	anomalyG0           Kind = "G0"            // cycle of writes
	anomalyG1c          Kind = "G1c"           // cycle of writes and reads of writes
	anomalyGSingle      Kind = "G-single"      // cycle with one anti-dependency
	anomalyGNonadjacent Kind = "G-nonadjacent" // cycle without adjacent anti-dependencies
	// Read or committed in a completed part: a fault of the workload.
	anomalyLate  Kind = "late"
	anomalyTotal Kind = "total" // a total that no sum of commits explains
	// Of an uncommitted or changed entry, or to another partition.
	anomalyDelivery Kind = "delivery"
	// Entries of a call out of order, or delivered after later ones.
	anomalyQueueOrder  Kind = "queue order"
	anomalyUndelivered Kind = "not delivered"     // an entry that committed
	anomalyUnstable    Kind = "unstable snapshot" // two answers at one timestamp
	anomalyIndex       Kind = "index"             // an index that is not its table
	// Use of a table during its import, or by something older.
	anomalyImport Kind = "import"
)

// realTimeSuffix marks a cycle with real-time edges.
const realTimeSuffix = "-realtime"

// Anomaly is one thing that must not be, in words.
type Anomaly struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // the transactions and cells involved
	// History is what the transactions involved did, a paragraph for each.
	History []string `json:"history,omitempty"`
}

func (a Anomaly) String() string { return fmt.Sprintf("%s: %s", a.Kind, a.Text) }

// keptPerKind is how many anomalies of one kind are told in words.
const keptPerKind = 10

// Report is what Check found.
type Report struct {
	Transactions int `json:"transactions"` // recorded: attempts, snapshots and runs of observers
	Committed    int `json:"committed"`    // acknowledged, or found to be
	Aborted      int `json:"aborted"`      // definitely, or found to be
	Resolved     int `json:"resolved"`     // of those, unknown ones that were found to be committed

	Reads    int `json:"reads"`    // reads that were compared with the version that they had to see
	Scans    int `json:"scans"`    // and scans
	Versions int `json:"versions"` // committed puts and deletes
	Edges    int `json:"edges"`    // dependencies in which cycles were searched

	Runs      int `json:"runs"`      // committed runs of observers
	Together  int `json:"together"`  // of these, that committed with one before
	Totals    int `json:"totals"`    // totals that were compared with the sum of contributions
	Delivered int `json:"delivered"` // entries of queues that were first delivered
	Watched   int `json:"watched"`   // changes that watchers first handed out

	Anomalies []Anomaly    `json:"anomalies"` // at most ten of a kind
	Counts    map[Kind]int `json:"counts"`    // all of them
}

func (r *Report) add(k Kind, format string, args ...any) {
	if r.Counts == nil {
		r.Counts = map[Kind]int{}
	}
	if r.Counts[k]++; r.Counts[k] <= keptPerKind {
		a := Anomaly{Kind: k, Text: fmt.Sprintf(format, args...)}
		for _, t := range involved(args) {
			a.History = append(a.History, t.story())
		}
		r.Anomalies = append(r.Anomalies, a)
	}
}

// Found is the number of anomalies.
func (r *Report) Found() (n int) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// Kinds lists the kinds of anomalies found, in order.
func (r *Report) Kinds() []Kind {
	var ks []Kind
	for k := range r.Counts {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history: %d transactions, %d committed (%d of them found to be), %d aborted; %d reads, %d scans, %d versions, %d dependencies, %d runs (%d with another), %d totals, %d deliveries, %d watched changes: ",
		r.Transactions, r.Committed, r.Resolved, r.Aborted, r.Reads, r.Scans, r.Versions, r.Edges, r.Runs, r.Together, r.Totals, r.Delivered, r.Watched)
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
		for _, story := range a.History {
			for line := range strings.Lines(story) {
				b.WriteString("    " + line)
			}
		}
	}
	return b.String()
}

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }
