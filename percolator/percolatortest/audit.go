package percolatortest

import (
	"context"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/audit"
	"github.com/gopercolator/percolator/internal/engine/layout"
)

// Rule names what a finding of [Audit] breaks.
type Rule = audit.Rule

// The rules that hold in every table at every time, however its clients died.
const (
	RuleDecodable   = audit.RuleDecodable   // every cell is one that the protocol writes
	RuleOneLock     = audit.RuleOneLock     // a cell has one lock at most (I2)
	RuleLockOrWrite = audit.RuleLockOrWrite // on one cell, a transaction's record replaces its lock
	// (start, commit] intervals are disjoint, and locks newer than all (I2).
	RuleOverlap   = audit.RuleOverlap
	RuleMarker    = audit.RuleMarker    // a rolled back transaction has no records (I8)
	RuleOneCommit = audit.RuleOneCommit // all records of a transaction have one
	RuleData      = audit.RuleData      // every put above the GC watermark has its data
	// An observed cell's newest change is acknowledged or notified (I10, I13).
	RuleObserved  = audit.RuleObserved
	RuleIndex     = audit.RuleIndex     // entries and indexed cells agree
	RulePrimary   = audit.RulePrimary   // a lock names a primary in a table of the schema
	RuleGarbage   = audit.RuleGarbage   // only with AuditConfig.Collected
	RuleWatermark = audit.RuleWatermark // collection stays at or below the safepoint (I16)
	// An entry leads to each committing lock (J1) and each notification (J4).
	RuleEntry  = audit.RuleEntry
	RuleParked = audit.RuleParked // the journal lists whatever is parked
)

// Finding is something that must not be in the tables. Values are left out:
//
//	Rule               Rule
//	Table, Row, Column string
//	Timestamps         []tso.Timestamp // those that Text speaks of
//	Text               string
type Finding = audit.Finding

// AuditConfig says what an audit has to know:
//
//	Schema            *percolator.Schema     // of the instance
//	Observers         map[[2]string][]string // of each observed column, by table and column
//	Collected         bool                   // a collection came last: nothing unreferenced is left
//	Transactions      int                    // those that are compared across rows; 0: all
//	SkipNotifications bool                   // no RuleObserved
//	SkipIndexes       bool                   // no RuleIndex
//	SkipJournal       bool                   // the journal is not read
//	Visit             func(AuditedRecord)    // if set, called for every record and marker
//
// An observed column that is not among Observers must have a notify cell, or at least one
// acknowledgment, for the newest change.
type AuditConfig = audit.Config

// AuditedRecord is one cell of the write family:
//
//	Cell          percolator.Cell
//	Start, Commit tso.Timestamp // equal in a marker
//	Kind          byte          // 'P', 'D', 'L' or 'R', as in docs/PROTOCOL.md
type AuditedRecord = audit.Record

// AuditReport is what an audit saw: counts, at most 1000 Findings, and in Found how many there are.
type AuditReport = audit.Report

// Audit reads the raw tables of the environment and fails the test for everything in them that
// contradicts docs/PROTOCOL.md. No client may be writing. It does not care whether locks of dead
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
	return audit.Run(ctx, func(ctx context.Context, table string, visit func(layout.Row)) error {
		return store.Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			visit(storedRow(r))
			return true
		})
	}, cfg)
}

func storedRow(r bigtable.Row) layout.Row {
	out := layout.Row{Key: r.Key()}
	for _, family := range append(families, "meta", "journal") {
		for _, it := range r[family] {
			out.Items = append(out.Items, layout.Item{Family: family, Column: strings.TrimPrefix(it.Column, family+":"), Timestamp: int64(it.Timestamp), Value: it.Value})
		}
	}
	return out
}
