// Package audit looks for what contradicts docs/internals/PROTOCOL.md in raw tables, with a decoder
// of its own. It stands above layout, whose rows it reads, and shares no other code with the
// engine.
package audit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// maxFindings bounds a report: a broken store breaks every cell.
const maxFindings = 1000

// Source reads a table: every version of every cell of its families, in key order. Without
// values of data, indexes cannot be compared (Config.SkipIndexes).
type Source func(ctx context.Context, table string, visit func(layout.Row)) error

// Run reads the raw tables of an instance, and lists what contradicts docs/internals/PROTOCOL.md.
// It reads row by row, so no client may write meanwhile. It fails indexes whose backfill has not
// ended. Memory: a few dozen bytes for each transaction that has a record (Config.Transactions),
// the indexed cells (Config.SkipIndexes), and the names in the journal (Config.SkipJournal).
func Run(ctx context.Context, read Source, cfg model.AuditConfig) (*model.AuditReport, error) {
	if cfg.Schema == nil {
		return nil, fmt.Errorf("audit: %w: there is no schema", model.ErrInvalidArgument)
	}
	a := &auditor{cfg: cfg, report: &model.AuditReport{}, txns: map[tso.Timestamp]auditedTxn{}, tables: map[string]bool{}}
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

// auditor is a running audit.
type auditor struct {
	cfg     model.AuditConfig
	report  *model.AuditReport
	order   []*auditedTable
	tables  map[string]bool
	txns    map[tso.Timestamp]auditedTxn
	oldest  tso.Timestamp // start of the oldest lock; 0: there is none
	newest  tso.Timestamp // commit
	indexes []*auditedIndex
	filled  map[string]indexState // of indexes younger than their tables
	dropped map[string]droppedTable

	building  bool          // the journal
	since     tso.Timestamp // what is older it need not name
	journaled bool          // it is complete, and was read
	journal   []*journalRow
	entries   map[layout.RowID][]journalEntry
	filed     map[layout.RowID][]tso.Timestamp // when something in a row expires, as the journal says
	headers   map[string]*journalHeader        // by stream
	listed    map[string]*listedParked         // by row of the journal and column
	listedIn  map[layout.RowID][]*listedParked
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
		at := &auditedTable{name: t.Name, observed: map[string][]string{}, indexed: map[string][]*auditedIndex{}, weak: catalog.SetOf(t.Weak)}
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
			a.filled = named[indexState](it.Value)
		case "dropped":
			a.dropped = named[droppedTable](it.Value)
		}
		at := map[string]*tso.Timestamp{"safepoint": &a.report.Safepoint, "mark": &a.report.GCWatermark}[it.Column]
		if at != nil && len(it.Value) == 8 {
			*at = tso.Timestamp(binary.BigEndian.Uint64(it.Value))
		}
	}
	if a.report.GCWatermark > a.report.Safepoint {
		a.find(model.RuleWatermark, "percolator_meta", "meta", "mark", "the GC watermark %d is above the safepoint %d", a.report.GCWatermark, a.report.Safepoint)
	}
}

// shares checks that shares belong to a cycle that resolves or erases (J10, J12).
func (a *auditor) shares(row layout.Row) {
	var cycle struct {
		Phase     string
		Safepoint tso.Timestamp
	}
	for _, it := range row.Of("meta") {
		if it.Column == "state" && json.Unmarshal(it.Value, &cycle) != nil {
			a.find(model.RuleDecodable, model.MetaTable, row.Key, it.Column, "the state of collection at Bigtable's timestamp %d cannot be decoded", it.Timestamp)
			return
		}
	}
	for _, it := range row.Of("meta") {
		if strings.HasPrefix(it.Column, "share-") && cycle.Phase != "resolve" && cycle.Phase != "erase" {
			a.find(model.RuleGarbage, model.MetaTable, row.Key, it.Column, "a share of a cycle that neither resolves nor erases, but is in phase %q of safepoint %d", cycle.Phase, cycle.Safepoint)
		}
	}
}

// find adds a finding; its timestamps are those among args.
func (a *auditor) find(r model.AuditRule, table, row, column, text string, args ...any) {
	if a.report.Found++; a.report.Found > maxFindings {
		return
	}
	f := model.AuditFinding{Rule: r, Table: table, Row: row, Column: column, Text: fmt.Sprintf(text, args...)}
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
func (a *auditor) record(r model.AuditedRecord) {
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
		a.find(model.RuleOneCommit, r.Cell.Table, r.Cell.Row, r.Cell.Column, "transaction %d committed at %d here, and at %d on %s", r.Start, r.Commit, t.commit, t.cell)
	}
	a.txns[r.Start] = t
}

// transactions finds transactions that were rolled back and committed. Below the watermark that is
// no contradiction: a client that asks a primary about an old lock may leave a marker where the
// record has been collected.
func (a *auditor) transactions() {
	for start, t := range a.txns {
		if t.marked && t.commit != 0 && start > a.report.GCWatermark {
			a.find(model.RuleMarker, t.cell.Table, t.cell.Row, t.cell.Column, "transaction %d has a rollback marker, and records of its commit at %d", start, t.commit)
		}
	}
}
