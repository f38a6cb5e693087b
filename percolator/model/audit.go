package model

import (
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/tso"
)

// AuditRule names what a finding of percolatortest.Audit breaks.
type AuditRule string

// The rules that hold in every table at every time, however its clients died.
const (
	RuleDecodable AuditRule = "undecodable" // every cell is one of the protocol's
	RuleOneLock   AuditRule = "two locks"   // a cell has one lock at most (I2)
	// On one cell, a transaction's record replaces its lock.
	RuleLockOrWrite AuditRule = "lock beside its record"
	// (start, commit] intervals are disjoint, and locks newer than all (I2).
	RuleOverlap AuditRule = "overlapping writers"
	// A rolled back transaction has no records (I8).
	RuleMarker    AuditRule = "marker beside a record"
	RuleOneCommit AuditRule = "two commit timestamps" // of all records of a transaction
	// Puts above the GC watermark have data.
	RuleData AuditRule = "record without data"
	// An observed cell's newest change is acknowledged or notified (I10, I13).
	RuleObserved AuditRule = "change not notified"
	RuleIndex    AuditRule = "index differs" // entries and indexed cells agree
	// Primaries are in a table of the schema, or a dropped one unnamed by entries (I26).
	RulePrimary AuditRule = "lock without a primary"
	RuleGarbage AuditRule = "left after collection" // only with AuditConfig.Collected
	// Collection stays at or below the safepoint (I16).
	RuleWatermark AuditRule = "GC watermark above the safepoint"
	// An entry leads to each committing lock (J1) and each notification (J4).
	RuleEntry  AuditRule = "not in the journal"
	RuleParked AuditRule = "parked beside the journal" // the journal lists all parked cells
)

// AuditFinding is something that must not be in the tables. Values are left out.
type AuditFinding struct {
	Rule               AuditRule
	Table, Row, Column string
	Timestamps         []tso.Timestamp // those that Text speaks of
	Text               string
}

// String names the cell as in messages of errors.
func (f AuditFinding) String() string {
	return fmt.Sprintf("%s: %s/%q/%q: %s", f.Rule, f.Table, f.Row, f.Column, f.Text)
}

// AuditConfig says what an audit has to know.
type AuditConfig struct {
	Schema *Schema // of the instance

	// Observers lists the names of the observers of each observed column, keyed by table and
	// column. A column that is not there must have a notify cell, or at least one acknowledgment,
	// for the newest change, and an entry in the journal for each notify cell, whichever observer
	// has run.
	Observers map[[2]string][]string

	// Repeated reports whether a request that arrived twice is known to have set a notification
	// again.
	Repeated func(table, row, column string, ts tso.Timestamp) bool

	// Collected says that a cycle of collection was the last thing to happen: nothing unreferenced
	// may be left at or below the GC watermark.
	Collected bool

	// Transactions bounds those that are compared across rows (RuleOneCommit, RuleMarker): the
	// first ones that were met. 0: all.
	Transactions int

	// SkipNotifications spares RuleObserved, which is for instances whose observers are known: a
	// column that became observed later has cells without notifications.
	SkipNotifications bool

	// SkipIndexes leaves indexes to others: they are not compared with the cells that they cover.
	SkipIndexes bool

	// SkipJournal spares what only holds with a journal that is complete.
	SkipJournal bool

	// Visit, if set, is called for every write record and marker that can be decoded.
	Visit func(AuditedRecord)
}

// AuditedRecord is one cell of the write family.
type AuditedRecord struct {
	Cell          Cell
	Start, Commit tso.Timestamp // equal in a marker
	Kind          byte          // 'P', 'D', 'L' or 'R', as in docs/internals/PROTOCOL.md
	Expires       tso.Timestamp // of a put: snapshots from here on see no value; 0: all do
}

// AuditReport is what an audit saw.
type AuditReport struct {
	Safepoint     tso.Timestamp
	GCWatermark   tso.Timestamp
	Rows          int
	Records       int // write records and markers
	Data          int // data versions
	Locks         int
	Notifications int // notify cells
	Orphans       int // unnamed data above the GC watermark: left by prewrites rolled back
	LateRecords   int // puts without data at or below the GC watermark: commits that came late
	IndexEntries  int // compared with indexed cells
	Uncompared    int // records beyond AuditConfig.Transactions
	Entries       int // of the journal
	StrayLocks    int // without an entry in the journal: of transactions that never commit (J8)
	Repeated      int // notify cells of settled changes: set again by duplicate requests

	Findings []AuditFinding // at most 1000
	Found    int            // all of them
}

// String tells the counts, and up to 20 findings.
func (r *AuditReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "audit: %d rows, %d records, %d data versions, %d locks, %d notify cells, %d orphans, %d late records, %d index entries, %d journal entries, %d stray locks, GC watermark %d: ",
		r.Rows, r.Records, r.Data, r.Locks, r.Notifications, r.Orphans, r.LateRecords, r.IndexEntries, r.Entries, r.StrayLocks, r.GCWatermark)
	if r.Repeated > 0 {
		fmt.Fprintf(&b, "%d repeated notify cells: ", r.Repeated)
	}
	if r.Found == 0 {
		b.WriteString("no findings\n")
		return b.String()
	}
	fmt.Fprintf(&b, "%d findings\n", r.Found)
	for _, f := range r.Findings[:min(len(r.Findings), 20)] {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	return b.String()
}
