package loader_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// An import that goes on under a schema with another TTL comes to its end.
func TestBulkResumedUnderAnotherTTL(t *testing.T) { inBubble(t, testBulkResumedUnderAnotherTTL) }

func testBulkResumedUnderAnotherTTL(t *testing.T) {
	const n = 20
	e := bulkEnv(t)
	cfg := bulkConfig()
	cfg.RowsPerRequest = 4
	errDies := errors.New("dies")
	cfg.Failed = func(loader.Failure[loader.Row]) error { return errDies }
	_, err := loader.Bulk(e.ctx, e.Client, cfg, badRow(n))
	fixture.WantErr(t, err, errDies)
	next := &percolator.Schema{Timing: e.Client.Schema().Timing, Tables: []percolator.Table{imported.Tables[0], {Name: "o"}}}
	next.Tables[0].TTL = 24 * time.Hour
	fixture.Must(t, percolator.CreateSchema(e.ctx, e.Project, e.Instance, next, e.Options()...))
	time.Sleep(time.Minute)
	other := e.NewClient()
	r, err := loader.Bulk(e.ctx, other, cfg, rows(n))
	if err != nil {
		t.Fatalf("%v: resumed %v from %v", err, r.Resumed, r.From.Items)
	}
	e.wantRows(other, n)
	lives := map[time.Duration]int{}
	s, err := other.Snapshot(e.ctx)
	fixture.Must(t, err)
	for entry, err := range s.Scan(e.ctx, "t", percolator.All()) {
		fixture.Must(t, err)
		if entry.Expires == 0 {
			lives[0]++
		} else {
			lives[entry.Expires.Sub(entry.CommitTS)]++
		}
	}
	if len(lives) != 1 {
		t.Errorf("the values of one import live differently long: %v", lives)
	}
}
