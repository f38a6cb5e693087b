package loader_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
)

// A backfill of an index of the empty table comes to its end while the import waits until all know
// of its fence: then nobody but the import writes the entries of its rows.
func TestBulkBesideTheEndOfABackfill(t *testing.T) { inBubble(t, testBulkBesideTheEndOfABackfill) }

func testBulkBesideTheEndOfABackfill(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	next := &percolator.Schema{Timing: e.Client.Schema().Timing, Tables: []percolator.Table{
		{Name: "t", Observed: []string{"c"}, Indexes: append([]percolator.Index{{Name: "late", Column: "empty"}}, imported.Tables[0].Indexes...)}, {Name: "o"},
	}}
	fixture.Must(t, percolator.CreateSchema(e.ctx, e.Project, e.Instance, next, e.Options()...))
	other := e.NewClient()
	waiting, done := make(chan bool), make(chan error)
	opts := admin.BackfillOptions{Progress: func(p admin.BackfillProgress) {
		if p.Phase != admin.BackfillFill || p.Row != "" || waiting == nil {
			return
		}
		w := waiting
		waiting = nil
		go func() {
			cfg := bulkConfig()
			cfg.Waiting = func(time.Duration) { close(w) }
			_, err := loader.Bulk(e.ctx, e.Client, cfg, rows(n))
			done <- err
		}()
		<-w
	}}
	_, err := admin.New(other).BackfillIndex(e.ctx, "t", "late", opts)
	t.Logf("backfill: %v", err)
	fixture.Must(t, <-done)
	time.Sleep(time.Minute)
	if err != nil { // it was refused beside the import
		_, err = admin.New(other).BackfillIndex(e.ctx, "t", "late", admin.BackfillOptions{})
		fixture.Must(t, err)
	}
	e.wantRows(other, n)
	s, err := other.Snapshot(e.ctx)
	fixture.Must(t, err)
	entries := 0
	for _, err := range s.ScanIndex(e.ctx, "t", "late", percolator.All()) {
		fixture.Must(t, err)
		entries++
	}
	if entries != n {
		t.Errorf("an index that is ready has %d entries of %d rows", entries, n)
	}
}
