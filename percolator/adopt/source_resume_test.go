package adopt_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A copy of a table that programs go on writing dies, and a program deletes what it has copied. The
// same call goes on and comes to its end: what differs is mended later.
func TestCopyResumedBesideADeletion(t *testing.T) { inBubble(t, testCopyResumedBesideADeletion) }

func testCopyResumedBesideADeletion(t *testing.T) {
	const n = 40
	w := newWorld(t, nil)
	at := time.Now()
	for i := range n {
		w.put(fmt.Sprintf("row-%03d", i), at.Add(-time.Hour), "f", "v", "value")
	}
	source, err := w.m.Source(w.Client, "t", w.plain, at)
	fixture.Must(t, err)
	cfg := loader.BulkConfig{Table: "t", Source: "plain", InUse: true, RowsPerRequest: 8, Concurrency: 1, OutageTimeout: time.Millisecond, CheckpointInterval: time.Hour}
	dies, writes := w.NewClient(), 0
	w.FaultsOf(dies).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "t" && r.Method == percolatortest.MutateRows {
			if writes++; writes == 3 {
				return percolatortest.Crash
			}
		}
		return percolatortest.Pass
	})
	if _, err = loader.Bulk(w.ctx, dies, cfg, source); err == nil {
		t.Fatal("it lives")
	}
	for _, row := range []string{"row-001", "row-009"} { // both were copied, the second one behind any position that was saved
		mut := bigtable.NewMutation()
		mut.DeleteCellsInColumn("f", "v")
		fixture.Must(t, w.plain.Apply(w.ctx, row, mut))
	}
	cfg.OutageTimeout = time.Minute
	r, err := loader.Bulk(w.ctx, w.Client, cfg, source)
	t.Logf("resumed from %d", r.From.Items)
	fixture.Must(t, err)
	time.Sleep(time.Minute)
	w.compare(true)
	want := map[string]string{}
	for i := range n {
		if i != 1 && i != 9 {
			want[fmt.Sprintf("row-%03d/value", i)] = "value"
		}
	}
	if !maps.Equal(w.contents(), want) {
		t.Errorf("%d cells, want %d", len(w.contents()), len(want))
	}
}
