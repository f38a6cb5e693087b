package loader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Imported values expire as if one transaction had put them (I27): collection finds them and their
// index entries when they have expired, though no transaction has named them (J11), and observers
// hear of it (I30).
func TestBulkOfValuesThatExpire(t *testing.T) { inBubble(t, testBulkOfValuesThatExpire) }

func testBulkOfValuesThatExpire(t *testing.T) {
	const n, ttl, retention = 30, 10 * time.Minute, time.Minute
	schema := &percolator.Schema{Tables: []percolator.Table{{
		Name: "t", Observed: []string{"c"}, Indexes: imported.Tables[0].Indexes,
		Columns: []percolator.ColumnSchema{{Name: "c", TTL: ttl, NotifyExpired: true}, {Name: "kind", TTL: ttl}, {Name: "name"}, {Name: "empty"}},
	}}}
	short := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = retention })
	e := &env{t, percolatortest.New(t, schema, short), context.Background()}
	_, err := loader.Bulk(e.ctx, e.Client, bulkConfig(), rows(n))
	fixture.Must(t, err)

	puts, deletions := e.observed()
	if puts != n || deletions != 0 {
		t.Errorf("observers were told of %d puts and %d deletions", puts, deletions)
	}
	e.wantRows(e.Client, n)
	s, err := e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	for entry, err := range s.Scan(e.ctx, "t", percolator.All(), "kind") {
		if fixture.Must(t, err); entry.Expires != entry.CommitTS.Add(ttl) {
			t.Errorf("%s expires at %v", entry.Cell, entry.Expires)
		}
	}
	time.Sleep(2 * retention)
	e.collect() // the entries go, and the values stay
	e.wantRows(e.Client, n)
	time.Sleep(ttl)
	s, err = e.Client.Snapshot(e.ctx)
	fixture.Must(t, err)
	for entry, err := range s.Scan(e.ctx, "t", percolator.All(), "c", "kind") {
		fixture.Must(t, err)
		t.Errorf("%s has not expired", entry.Cell)
	}
	for entry, err := range s.ScanIndex(e.ctx, "t", "kind", percolator.All()) {
		fixture.Must(t, err)
		t.Errorf("the index has %s", entry.Cell)
	}
	for range 3 {
		time.Sleep(2 * retention)
		e.collect()
		p, d := e.observed()
		puts, deletions = puts+p, deletions+d
	}
	if puts != n || deletions != n {
		t.Errorf("in the end observers were told of %d puts and %d deletions", puts, deletions)
	}
	left := fmt.Sprint(fixture.CellsOf(t, e.ctx, e.Env, "t", "data"), fixture.CellsOf(t, e.ctx, e.Env, "t", "write"),
		fixture.CellsOf(t, e.ctx, e.Env, "t.name", "write"), fixture.CellsOf(t, e.ctx, e.Env, "t.kind", "write"), fixture.CellsOf(t, e.ctx, e.Env, "t.kind", "data"))
	if want := fmt.Sprint(2*n, 2*n, n, 0, 0); left != want {
		t.Errorf("cells of data and records, and of entries, %s are left, want %s", left, want)
	}
	e.Audit(t, func(cfg *percolatortest.AuditConfig) { cfg.Collected = true })
}

func (e *env) collect() {
	e.Helper()
	g, err := admin.New(e.Client).NewCollector(admin.CollectorConfig{})
	fixture.Must(e, err)
	fixture.Must(e, fixture.ErrOf(g.Collect(e.ctx)))
}

// observed runs the observer of column c until there is nothing to do.
func (e *env) observed() (puts, deletions int) {
	e.Helper()
	registry := observers.NewRegistry()
	told := make(chan bool, 1000)
	registry.Observe("o", "t", "c", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		told <- ch.Deleted
		return nil
	})
	w, err := observers.NewWorker(e.Client, registry, observers.Config{DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
	fixture.Must(e, err)
	ctx, stop := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	fixture.Must(e, w.WaitIdle(e.ctx))
	stop()
	fixture.Must(e, <-done)
	close(told)
	for deleted := range told {
		if deleted {
			deletions++
		} else {
			puts++
		}
	}
	return puts, deletions
}
