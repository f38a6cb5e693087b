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
	anomalyInternal      Kind = "internal"             // a transaction does not see its own writes, or one cell twice the same
	anomalyAbortedRead   Kind = "G1a"                  // read of a write of an aborted transaction
	anomalyIntermediate  Kind = "G1b"                  // read of a write that its own transaction replaced
	anomalyThinAir       Kind = "thin air"             // read of a value that nobody wrote
	anomalyStaleRead     Kind = "stale read"           // a version older than the newest below the snapshot, or no version where there is one
	anomalyFutureRead    Kind = "future read"          // a version committed above the snapshot
	anomalyScanOrder     Kind = "scan order"           // entries out of order or twice
	anomalyOverlap       Kind = "overlap"              // two writers of one cell at the same time
	anomalyLostUpdate    Kind = "lost update"          // an overlap of transactions that had read the cell before
	anomalyTimestamps    Kind = "timestamps"           // not unique, or a commit not above its start
	anomalyTooOld        Kind = "too old"              // committed although its snapshot may have been collected
	anomalyRealTime      Kind = "real time"            // began after another was acknowledged, with a smaller timestamp
	anomalyHalfCommit    Kind = "two commits"          // one transaction seen with two commit timestamps
	anomalyAbortedRecord Kind = "record of an abort"   // in the raw tables
	anomalyCommittedUndo Kind = "marker of a commit"   // in the raw tables
	anomalyUnknownRecord Kind = "record of nobody"     // in the raw tables
	anomalyUnplaced      Kind = "unplaced"             // seen to be committed, but no scan tells when: a fault of the workload
	anomalyListOrder     Kind = "list order"           // a list that is not its predecessor and the appended elements
	anomalyUnique        Kind = "unique index"         // two rows with one value
	anomalyDoubleRun     Kind = "observed twice"       // two runs of an observer committed for one change
	anomalyStaleRun      Kind = "observed out of date" // a run for a change that was not the newest in its snapshot
	anomalyUnobserved    Kind = "not observed"         // a change that nobody has run for
	anomalyUndue         Kind = "not due"              // in an export, though its observer had not run
	anomalyInvariant     Kind = "invariant"            // of the application
	anomalyG0            Kind = "G0"                   // cycle of writes
	anomalyG1c           Kind = "G1c"                  // cycle of writes and reads of writes
	anomalyGSingle       Kind = "G-single"             // cycle with one anti-dependency
	anomalyGNonadjacent  Kind = "G-nonadjacent"        // cycle without adjacent anti-dependencies
	anomalyLate          Kind = "late"                 // read or committed where all was said to be complete: a fault of the workload
	anomalyTotal         Kind = "total"                // a total that no sum of commits explains
	anomalyDelivery      Kind = "delivery"             // of an entry that nobody committed, or to another partition, or changed
	anomalyQueueOrder    Kind = "queue order"          // entries of a call out of order, or first delivered after later ones
	anomalyUndelivered   Kind = "not delivered"        // an entry that committed
	anomalyUnstable      Kind = "unstable snapshot"    // two answers at one timestamp
	anomalyIndex         Kind = "index"                // an index that is not its table
	realTimeSuffix            = "-realtime"            // of a cycle with real-time edges
)

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
	Totals    int `json:"totals"`    // totals that were compared with the sum of contributions
	Delivered int `json:"delivered"` // entries of queues that were first delivered

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
	fmt.Fprintf(&b, "history: %d transactions, %d committed (%d of them found to be), %d aborted; %d reads, %d scans, %d versions, %d dependencies, %d runs, %d totals, %d deliveries: ",
		r.Transactions, r.Committed, r.Resolved, r.Aborted, r.Reads, r.Scans, r.Versions, r.Edges, r.Runs, r.Totals, r.Delivered)
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
