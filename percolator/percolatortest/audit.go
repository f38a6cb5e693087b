package percolatortest

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Rule names what a finding of [Audit] breaks.
type Rule string

// The rules that hold in every table at every time, however its clients died.
const (
	RuleDecodable   Rule = "undecodable"                      // every cell is one that the protocol writes
	RuleOneLock     Rule = "two locks"                        // a cell has one lock at most (I2)
	RuleLockOrWrite Rule = "lock beside its record"           // of one transaction, on one cell: the record replaces the lock
	RuleOverlap     Rule = "overlapping writers"              // (start, commit] of a cell's records are disjoint, and a lock is newer than all (I2)
	RuleMarker      Rule = "marker beside a record"           // a transaction that was rolled back has no records (I8)
	RuleOneCommit   Rule = "two commit timestamps"            // all records of a transaction have one
	RuleData        Rule = "record without data"              // every put above the GC watermark has its data
	RuleObserved    Rule = "change not notified"              // the newest change of an observed cell is acknowledged, or a notify cell tells of it (I10, I13)
	RuleIndex       Rule = "index differs"                    // entries and indexed cells agree
	RulePrimary     Rule = "lock without a primary"           // a lock names a primary in a table of the schema
	RuleGarbage     Rule = "left after collection"            // only with AuditConfig.Collected
	RuleWatermark   Rule = "GC watermark above the safepoint" // collection does not outrun what readers are told (I16)
)

// Finding is something that must not be in the tables. Values are left out.
type Finding struct {
	Rule               Rule
	Table, Row, Column string
	Timestamps         []tso.Timestamp // those that Text speaks of
	Text               string
}

// String names the cell as in messages of errors.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s/%q/%q: %s", f.Rule, f.Table, f.Row, f.Column, f.Text)
}

// AuditConfig says what an audit has to know.
type AuditConfig struct {
	Schema *percolator.Schema // of the instance

	// Observers lists the names of the observers of each observed column, keyed by table and column. A
	// column that is not there must have a notify cell, or at least one acknowledgment, for the newest
	// change.
	Observers map[[2]string][]string

	// Collected says that a cycle of collection was the last thing to happen: nothing unreferenced may
	// be left at or below the GC watermark.
	Collected bool

	// Visit, if set, is called for every write record and marker that can be decoded.
	Visit func(AuditedRecord)
}

// AuditedRecord is one cell of the write family.
type AuditedRecord struct {
	Cell          percolator.Cell
	Start, Commit tso.Timestamp // equal in a marker
	Kind          byte          // 'P', 'D', 'L' or 'R', as in docs/PROTOCOL.md
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
	Orphans       int // data versions above the GC watermark that nothing names: left by prewrites of transactions that were rolled back
	LateRecords   int // put records at or below the GC watermark without data: left by commits that landed after collection
	IndexEntries  int // compared with indexed cells

	Findings []Finding // at most 1000
	Found    int       // all of them
}

// maxFindings bounds a report: a broken store breaks every cell.
const maxFindings = 1000

// String tells the counts, and up to 20 findings.
func (r *AuditReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "audit: %d rows, %d records, %d data versions, %d locks, %d notify cells, %d orphans, %d late records, %d index entries, GC watermark %d: ",
		r.Rows, r.Records, r.Data, r.Locks, r.Notifications, r.Orphans, r.LateRecords, r.IndexEntries, r.GCWatermark)
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

// Audit reads the raw tables of the environment and fails the test for everything in them that
// contradicts docs/PROTOCOL.md. Nobody may be writing. It does not care whether locks of dead
// clients are left.
func (e *Env) Audit(t testing.TB, configure ...func(*AuditConfig)) *AuditReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	cfg := AuditConfig{Schema: e.inspector().Schema()}
	for _, f := range configure {
		f(&cfg)
	}
	r, err := Audit(ctx, e.Store(), cfg)
	if err != nil {
		t.Fatalf("percolatortest: audit: %v", err)
	}
	if r.Found > 0 {
		t.Errorf("percolatortest: %s", r)
	}
	return r
}

// auditLimit bounds an audit of an environment.
const auditLimit = 10 * setupLimit

// Audit reads the raw tables of any instance, with a decoder of its own, and lists what contradicts
// docs/PROTOCOL.md. It reads row by row, so there must be no concurrent writers. It fails indexes
// whose backfill has not ended. Memory: a few dozen bytes for each transaction that has a record,
// and the indexed cells.
func Audit(ctx context.Context, store *bigtable.Client, cfg AuditConfig) (*AuditReport, error) {
	if cfg.Schema == nil {
		return nil, fmt.Errorf("percolatortest: audit: %w: AuditConfig.Schema is nil", percolator.ErrInvalidArgument)
	}
	a := &auditor{cfg: cfg, report: &AuditReport{}, txns: map[tso.Timestamp]auditedTxn{}, tables: map[string]bool{}}
	if err := a.readBounds(ctx, store); err != nil {
		return nil, err
	}
	a.know()
	for _, t := range a.order {
		err := store.Open(t.name).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			a.row(t, r)
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("percolatortest: audit: table %q: %w", t.name, err)
		}
	}
	a.transactions()
	a.compareIndexes()
	return a.report, nil
}

// auditor is an audit under way.
type auditor struct {
	cfg     AuditConfig
	report  *AuditReport
	order   []*auditedTable
	tables  map[string]bool
	txns    map[tso.Timestamp]auditedTxn
	oldest  tso.Timestamp // start of the oldest lock; 0: there is none
	indexes []*auditedIndex
}

// auditedTable is a table of the schema, or of one of its indexes.
type auditedTable struct {
	name     string
	observed map[string][]string // observers by column
	indexed  map[string][]*auditedIndex
	entries  *auditedIndex // of which this is the table
}

// know prepares the tables of the schema.
func (a *auditor) know() {
	for _, t := range a.cfg.Schema.Tables {
		at := &auditedTable{name: t.Name, observed: map[string][]string{}, indexed: map[string][]*auditedIndex{}}
		for _, col := range t.Observed {
			at.observed[col] = a.cfg.Observers[[2]string{t.Name, col}]
		}
		a.order = append(a.order, at)
		for _, ix := range t.Indexes {
			ai := &auditedIndex{table: t.Name, Index: ix}
			at.indexed[ix.Column] = append(at.indexed[ix.Column], ai)
			a.indexes = append(a.indexes, ai)
			a.order = append(a.order, &auditedTable{name: t.Name + "." + ix.Name, entries: ai})
		}
	}
	for _, t := range a.order {
		a.tables[t.name] = true
	}
}

// readBounds reads the safepoint and the GC watermark from the meta row.
func (a *auditor) readBounds(ctx context.Context, store *bigtable.Client) error {
	row, err := store.Open("percolator_meta").ReadRow(ctx, "meta", bigtable.RowFilter(bigtable.LatestNFilter(1)))
	if err != nil {
		return fmt.Errorf("percolatortest: audit: %w", err)
	}
	for _, it := range row["meta"] {
		at := map[string]*tso.Timestamp{"meta:safepoint": &a.report.Safepoint, "meta:mark": &a.report.GCWatermark}[it.Column]
		if at != nil && len(it.Value) == 8 {
			*at = tso.Timestamp(binary.BigEndian.Uint64(it.Value))
		}
	}
	if a.report.GCWatermark > a.report.Safepoint {
		a.find(RuleWatermark, "percolator_meta", "meta", "mark", "the GC watermark %d is above the safepoint %d", a.report.GCWatermark, a.report.Safepoint)
	}
	return nil
}

// find adds a finding; its timestamps are those among args.
func (a *auditor) find(r Rule, table, row, column, text string, args ...any) {
	if a.report.Found++; a.report.Found > maxFindings {
		return
	}
	f := Finding{Rule: r, Table: table, Row: row, Column: column, Text: fmt.Sprintf(text, args...)}
	for _, arg := range args {
		switch ts := arg.(type) {
		case tso.Timestamp:
			f.Timestamps = append(f.Timestamps, ts)
		case bigtable.Timestamp:
			f.Timestamps = append(f.Timestamps, tso.Timestamp(ts/1000))
		}
	}
	a.report.Findings = append(a.report.Findings, f)
}

// auditedTxn is what is known of a transaction from its records.
type auditedTxn struct {
	commit tso.Timestamp   // 0: no record yet
	marked bool            // there is a rollback marker
	cell   percolator.Cell // of the first record or marker
}

// record takes a record into account that belongs to a transaction with others elsewhere.
func (a *auditor) record(r AuditedRecord) {
	if a.cfg.Visit != nil {
		a.cfg.Visit(r)
	}
	t, known := a.txns[r.Start]
	if !known {
		t.cell = r.Cell
	}
	switch {
	case r.Kind == 'R':
		t.marked = true
	case t.commit == 0:
		t.commit = r.Commit
	case t.commit != r.Commit:
		a.find(RuleOneCommit, r.Cell.Table, r.Cell.Row, r.Cell.Column, "transaction %d committed at %d here, and at %d on %s", r.Start, r.Commit, t.commit, t.cell)
	}
	a.txns[r.Start] = t
}

// transactions finds transactions that were rolled back and committed. Below the watermark that is
// no contradiction: a client that asks a primary about an old lock may leave a marker where the
// record has been collected.
func (a *auditor) transactions() {
	for start, t := range a.txns {
		if t.marked && t.commit != 0 && start > a.report.GCWatermark {
			a.find(RuleMarker, t.cell.Table, t.cell.Row, t.cell.Column, "transaction %d has a rollback marker, and records of its commit at %d", start, t.commit)
		}
	}
}
