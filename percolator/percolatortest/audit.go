package percolatortest

import (
	"context"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/audit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// Audit reads the raw tables of the environment and fails the test for everything in them that
// contradicts docs/internals/PROTOCOL.md. No client may be writing. It does not care whether locks
// of dead clients are left.
func (e *Env) Audit(t testing.TB, configure ...func(*model.AuditConfig)) *model.AuditReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	cfg := model.AuditConfig{Schema: e.inspector().Schema()}
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
// docs/internals/PROTOCOL.md. It reads row by row, so there must be no concurrent writers. It fails
// indexes whose backfill has not ended. Memory: a few dozen bytes for each transaction that has a
// record, and the indexed cells.
func Audit(ctx context.Context, store *bigtable.Client, cfg model.AuditConfig) (*model.AuditReport, error) {
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
