package backup_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A backup has no value that had expired by its snapshot, and a restore begins the time to live of
// the others anew (I27). In the restored instance collection finds them when they expire, though no
// entry of a transaction leads there: the sweep that builds its journal announces them (J11).
func TestValuesThatExpireAreRestored(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	percolatortest.Bubble(t, testValuesThatExpireAreRestored)
}

func testValuesThatExpireAreRestored(t *testing.T) {
	const ttl = 3 * time.Hour // longer than the retention
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{
		Name: "t", Observed: []string{"told"}, Indexes: []percolator.Index{{Name: "told", Column: "told"}},
		Columns: []percolator.ColumnSchema{{Name: "told", TTL: ttl, NotifyExpired: true}, {Name: "brief", TTL: time.Minute}, {Name: "stays"}},
	}}})
	ctx, store := context.Background(), newMemory()
	told, stays := cell("t", "r", "told"), cell("t", "r", "stays")
	set(t, env.Client, values{told: "v", stays: "v", cell("t", "r", "brief"): "v"})
	time.Sleep(2 * time.Minute)
	if m := run(t, env.Client, store, backup.Options{}); m.Total.Values != 2 {
		t.Errorf("%+v in the backup", m.Total)
	}
	g := newTarget(t, env)
	_, err := backup.Restore(ctx, g.client(store), store, backup.RestoreOptions{})
	must(t, err)
	c := g.open()
	tools := admin.New(c)
	started := time.Now()
	s, err := c.Snapshot(ctx)
	must(t, err)
	for e, err := range s.Scan(ctx, "t", percolator.All(), "told") {
		if must(t, err); e.Expires != e.CommitTS.Add(ttl) || e.Expires.Time().Before(started.Add(ttl-time.Hour)) {
			t.Errorf("restored at %v, expires at %v", e.CommitTS.Time(), e.Expires.Time())
		}
	}
	sweeper, err := tools.NewSweeper(model.SweepConfig{})
	must(t, err)
	_, err = sweeper.Sweep(ctx)
	must(t, err)
	collect := func(after time.Duration) admin.Collection {
		time.Sleep(after)
		return fixture.Collect(t, ctx, c)
	}
	collect(90 * time.Minute) // the entries of the sweep go
	if got := contents(t, c); len(got) != 2 || got[told] != "v" {
		t.Errorf("the restored instance shows %v", got)
	}
	if col := collect(ttl); col.Expired != 1 {
		t.Errorf("%d values were deleted", col.Expired)
	}
	if got := contents(t, c); len(got) != 1 || got[stays] != "v" {
		t.Errorf("in the end the restored instance shows %v", got)
	}
	bt, err := bigtable.NewClient(ctx, env.Project, g.instance, env.Options()...)
	must(t, err)
	defer bt.Close()
	must(t, bt.Open("t.told").ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		t.Errorf("the entry %q is left", r.Key())
		return true
	}))
}
