// Package audit looks for what contradicts docs/PROTOCOL.md in raw tables, with a decoder of its
// own. It stands above layout, whose rows it reads, and shares no other code with the engine.
package audit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Rule names what a finding of [Run] breaks.
type Rule string

// The rules that hold in every table at every time, however its clients died.
const (
	RuleDecodable Rule = "undecodable" // every cell is one of the protocol's
	RuleOneLock   Rule = "two locks"   // a cell has one lock at most (I2)
	// On one cell, a transaction's record replaces its lock.
	RuleLockOrWrite Rule = "lock beside its record"
	// (start, commit] intervals are disjoint, and locks newer than all (I2).
	RuleOverlap Rule = "overlapping writers"
	// A rolled back transaction has no records (I8).
	RuleMarker    Rule = "marker beside a record"
	RuleOneCommit Rule = "two commit timestamps" // of all records of a transaction
	// Puts above the GC watermark have data.
	RuleData Rule = "record without data"
	// An observed cell's newest change is acknowledged or notified (I10, I13).
	RuleObserved Rule = "change not notified"
	RuleIndex    Rule = "index differs" // entries and indexed cells agree
	// Primaries are in a table of the schema, or a dropped one unnamed by entries (I26).
	RulePrimary Rule = "lock without a primary"
	RuleGarbage Rule = "left after collection" // only with Config.Collected
	// Collection stays at or below the safepoint (I16).
	RuleWatermark Rule = "GC watermark above the safepoint"
	// An entry leads to each committing lock (J1) and each notification (J4).
	RuleEntry  Rule = "not in the journal"
	RuleParked Rule = "parked beside the journal" // the journal lists all parked cells
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

// Config says what an audit has to know.
type Config struct {
	Schema *model.Schema // of the instance

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
	Visit func(Record)
}

// Record is one cell of the write family.
type Record struct {
	Cell          model.Cell
	Start, Commit tso.Timestamp // equal in a marker
	Kind          byte          // 'P', 'D', 'L' or 'R', as in docs/PROTOCOL.md
	Expires       tso.Timestamp // of a put: snapshots from here on see no value; 0: all do
}

// Report is what an audit saw.
type Report struct {
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
	Uncompared    int // records beyond Config.Transactions
	Entries       int // of the journal
	StrayLocks    int // without an entry in the journal: of transactions that never commit (J8)
	Repeated      int // notify cells of settled changes: set again by duplicate requests

	Findings []Finding // at most 1000
	Found    int       // all of them
}

// maxFindings bounds a report: a broken store breaks every cell.
const maxFindings = 1000

// String tells the counts, and up to 20 findings.
func (r *Report) String() string {
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

// Source reads a table: every version of every cell of its families, in key order. Without
// values of data, indexes cannot be compared (Config.SkipIndexes).
type Source func(ctx context.Context, table string, visit func(layout.Row)) error

// Run reads the raw tables of an instance, and lists what contradicts docs/PROTOCOL.md. It reads
// row by row, so no client may write meanwhile. It fails indexes whose backfill has not ended.
// Memory: a few dozen bytes for each transaction that has a record (Config.Transactions), the
// indexed cells (Config.SkipIndexes), and the names in the journal (Config.SkipJournal).
func Run(ctx context.Context, read Source, cfg Config) (*Report, error) {
	if cfg.Schema == nil {
		return nil, fmt.Errorf("audit: %w: there is no schema", model.ErrInvalidArgument)
	}
	a := &auditor{cfg: cfg, report: &Report{}, txns: map[tso.Timestamp]auditedTxn{}, tables: map[string]bool{}}
	if err := read(ctx, model.MetaTable, a.bounds); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	a.know()
	if err := a.readJournal(ctx, read); err != nil {
		return nil, err
	}
	for _, t := range a.order {
		if err := read(ctx, t.name, func(r layout.Row) { a.row(t, r) }); err != nil {
			return nil, fmt.Errorf("audit: table %q: %w", t.name, err)
		}
	}
	a.transactions()
	a.unjournaled()
	a.compareIndexes()
	return a.report, nil
}

// auditor is an audit under way.
type auditor struct {
	cfg     Config
	report  *Report
	order   []*auditedTable
	tables  map[string]bool
	txns    map[tso.Timestamp]auditedTxn
	oldest  tso.Timestamp // start of the oldest lock; 0: there is none
	newest  tso.Timestamp // commit
	indexes []*auditedIndex
	filled  map[string]indexState    // of indexes younger than their tables
	dropped map[string]tso.Timestamp // until when tables were there

	building  bool          // the journal
	since     tso.Timestamp // what is older it need not name
	journaled bool          // it is complete, and was read
	journal   []*journalRow
	entries   map[rowName][]journalEntry
	filed     map[rowName][]tso.Timestamp // when something in a row expires, as the journal says
	headers   map[string]*journalHeader   // by stream
	listed    map[string]*listedParked    // by row of the journal and column
	listedIn  map[rowName][]*listedParked
	stray     []strayLock
}

// auditedTable is a table of the schema, or of one of its indexes.
type auditedTable struct {
	name     string
	observed map[string][]string // observers by column
	weak     map[string]bool
	indexed  map[string][]*auditedIndex
	entries  *auditedIndex // of which this is the table
}

// know prepares the tables of the schema.
func (a *auditor) know() {
	for _, t := range a.cfg.Schema.Tables {
		at := &auditedTable{name: t.Name, observed: map[string][]string{}, indexed: map[string][]*auditedIndex{}, weak: model.SetOf(t.Weak)}
		for _, col := range t.Observed {
			at.observed[col] = a.cfg.Observers[[2]string{t.Name, col}]
		}
		a.order = append(a.order, at)
		for _, ix := range t.Indexes {
			ai := &auditedIndex{table: t.Name, Index: ix}
			entries := &auditedTable{name: t.Name + "." + ix.Name}
			a.order = append(a.order, entries)
			if !a.cfg.SkipIndexes {
				at.indexed[ix.Column] = append(at.indexed[ix.Column], ai)
				a.indexes, entries.entries = append(a.indexes, ai), ai
			}
		}
	}
	for _, t := range a.order {
		a.tables[t.name] = true
	}
}

// bounds takes the safepoint and the GC watermark from the meta row, and checks that of the
// collector.
func (a *auditor) bounds(row layout.Row) {
	switch row.Key {
	case "collector":
		a.shares(row)
		return
	case "meta":
	default:
		return
	}
	for _, it := range row.Of("meta") {
		switch it.Column {
		case "journal":
			a.building, a.since = journalState(it.Value)
		case "indexes":
			a.filled = indexStates(it.Value)
		case "dropped":
			a.dropped = drops(it.Value)
		}
		at := map[string]*tso.Timestamp{"safepoint": &a.report.Safepoint, "mark": &a.report.GCWatermark}[it.Column]
		if at != nil && len(it.Value) == 8 {
			*at = tso.Timestamp(binary.BigEndian.Uint64(it.Value))
		}
	}
	if a.report.GCWatermark > a.report.Safepoint {
		a.find(RuleWatermark, "percolator_meta", "meta", "mark", "the GC watermark %d is above the safepoint %d", a.report.GCWatermark, a.report.Safepoint)
	}
}

// shares checks that what is left to erase of a cycle belongs to one that erases.
func (a *auditor) shares(row layout.Row) {
	var cycle struct {
		Phase     string
		Safepoint tso.Timestamp
	}
	for _, it := range row.Of("meta") {
		if it.Column == "state" && json.Unmarshal(it.Value, &cycle) != nil {
			a.find(RuleDecodable, model.MetaTable, row.Key, it.Column, "the state of collection at Bigtable's timestamp %d cannot be decoded", it.Timestamp)
			return
		}
	}
	for _, it := range row.Of("meta") {
		if strings.HasPrefix(it.Column, "share-") && cycle.Phase != "erase" {
			a.find(RuleGarbage, model.MetaTable, row.Key, it.Column, "a share of a cycle that does not erase, but is in phase %q of safepoint %d", cycle.Phase, cycle.Safepoint)
		}
	}
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
		case int64: // of Bigtable
			f.Timestamps = append(f.Timestamps, tso.Timestamp(ts/1000))
		}
	}
	a.report.Findings = append(a.report.Findings, f)
}

// auditedTxn is what is known of a transaction from its records.
type auditedTxn struct {
	commit tso.Timestamp // 0: no record yet
	marked bool          // there is a rollback marker
	cell   model.Cell    // of the first record or marker
}

// record takes a record into account that belongs to a transaction with others elsewhere.
func (a *auditor) record(r Record) {
	if a.cfg.Visit != nil {
		a.cfg.Visit(r)
	}
	a.newest = max(a.newest, r.Commit)
	t, known := a.txns[r.Start]
	if !known {
		if a.cfg.Transactions > 0 && len(a.txns) >= a.cfg.Transactions {
			a.report.Uncompared++
			return
		}
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
