package admin_test

import (
	"github.com/gopercolator/percolator/percolator/model"

	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// slowly delivers every request of a client 5 ms late. heard hears of it first, and what it
// returns, if not nil, of the delivery.
func slowly(env *percolatortest.Env, c *percolator.Client, heard func(percolatortest.Request) (delivered func())) {
	slow := func(r percolatortest.Request) percolatortest.Action {
		delivered := heard(r)
		h := percolatortest.NewHold()
		time.AfterFunc(5*time.Millisecond, func() {
			if delivered != nil {
				delivered()
			}
			h.Release()
		})
		return h
	}
	env.FaultsOf(c).Handle(slow)
	env.FaultsOf(c).HandleJournal(slow)
}

// writeStreams has clients overwrite rows of their own once, so that each has streams with garbage.
func writeStreams(t *testing.T, ctx context.Context, env *percolatortest.Env, clients, rows int) {
	t.Helper()
	for i := range clients {
		c := env.NewClient(percolatortest.Configure(shortRetention))
		for range 2 {
			for j := range rows {
				fixture.Put(t, ctx, c, fmt.Sprintf("%d-%d", i, j), "c", "v")
			}
		}
		fixture.Must(t, c.Flush(ctx))
	}
}

// streamsLeft counts rows of the journal with entries, and headers.
func streamsLeft(t *testing.T, ctx context.Context, env *percolatortest.Env) (rows, headers int) {
	t.Helper()
	fixture.Must(t, env.Store().Open("percolator_journal").ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		switch {
		case len(r.Key()) == 25:
			rows++
		case r.Key()[0] == 0x41:
			headers++
		}
		return true
	}))
	return rows, headers
}

func collected(cfg *model.AuditConfig) { cfg.Collected = true }

// One, two and four collectors share the erasing of one cycle: each erases some of it, and what the
// cycle reports is the sum, each version once. Together they send hardly more requests than one
// does, and so take less time.
func TestCollectorsShareTheErasing(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	var mu sync.Mutex
	sent := map[int][]int{} // requests of each collector, by how many there are
	t.Cleanup(func() {
		alone := sent[1]
		if alone == nil {
			return // not run, or failed
		}
		for n, each := range sent {
			sum := 0
			for _, r := range each {
				sum += r
			}
			t.Logf("%d collectors: %v requests of 5 ms, %.1f times as fast as one", n, each, float64(alone[0])/float64(slices.Max(each)))
			if sum > 2*alone[0] || n > 1 && slices.Max(each) >= alone[0] {
				t.Errorf("%d collectors send %v requests, one sends %v", n, each, alone)
			}
		}
	})
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var each []int
			percolatortest.Bubble(t, func(t *testing.T) { each = shareErasing(t, n) })
			mu.Lock()
			defer mu.Unlock()
			sent[n] = each
		})
	}
}

// shareErasing has n collectors erase one cycle, and counts the requests by which each does.
func shareErasing(t *testing.T, n int) []int {
	env := newCollectorEnv(t)
	ctx := fixture.Context(t)
	const clients, rows = 24, 4 // more shares than collectors, however streams fall into shards
	writeStreams(t, ctx, env, clients, rows)
	env.Clock.Advance(afterwards)

	sent := make([]atomic.Int64, n)
	var mu sync.Mutex
	var did []admin.Collection
	var helpers sync.WaitGroup
	help := func(sent *atomic.Int64) {
		c := env.NewClient(percolatortest.Configure(shortRetention))
		claimed := make(chan struct{})
		var once sync.Once
		slowly(env, c, func(r percolatortest.Request) func() {
			if r.Table != "percolator_meta" {
				sent.Add(1)
			} else if r.Method == percolatortest.CheckAndMutateRow && r.Row == "collector" {
				once.Do(func() { close(claimed) })
			}
			return nil
		})
		helpers.Go(func() {
			col, err := collector(t, c, admin.CollectorConfig{}).Collect(ctx)
			if err != nil || col.Phase != model.CollectionErase || col.Holder == "" || col.Safepoint == 0 {
				t.Errorf("a collector beside another: %+v, %v", col, err)
			}
			mu.Lock()
			defer mu.Unlock()
			did = append(did, col)
		})
		<-claimed
	}
	leader := env.NewClient(percolatortest.Configure(shortRetention))
	var erasing atomic.Bool
	slowly(env, leader, func(r percolatortest.Request) func() {
		if erasing.Load() && r.Table != "percolator_meta" {
			sent[0].Add(1)
		}
		return nil
	})
	var once sync.Once
	col, err := collector(t, leader, admin.CollectorConfig{Progress: func(col admin.Collection) {
		if col.Phase == model.CollectionErase {
			erasing.Store(true)
			once.Do(func() {
				for i := range n - 1 {
					help(&sent[i+1])
				}
			})
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	helpers.Wait()
	left := col
	for _, d := range did {
		if d.Versions == 0 || d.Rows == 0 {
			t.Errorf("one of %d collectors erased nothing: %+v", n, d)
		}
		left.Versions -= d.Versions
		left.Rows -= d.Rows
	}
	if col.Versions != 2*clients*rows || col.Rows < clients*rows || left.Versions <= 0 || left.Rows <= 0 {
		t.Errorf("collected %+v, of that the others %+v", col, did)
	}
	fixture.WantCells(t, ctx, env, "in the end", clients*rows, 0, clients*rows, 0)
	env.Audit(t, collected)
	if rows, _ := streamsLeft(t, ctx, env); rows != 0 {
		t.Errorf("%d rows of the journal are left", rows)
	}
	each := make([]int, n)
	for i := range sent {
		each[i] = int(sent[i].Load())
	}
	return each
}

// A collector that dies with a share: another one takes it over when its lease has run out, and the
// cycle ends with nothing left.
func TestShareOfADeadCollector(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testShareOfADeadCollector)
}

func testShareOfADeadCollector(t *testing.T) {
	env := newCollectorEnv(t)
	ctx := fixture.Context(t)
	writeStreams(t, ctx, env, 6, 4)
	env.Clock.Advance(afterwards)
	dead := env.NewClient(percolatortest.Configure(shortRetention))
	env.FaultsOf(dead).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash // it has erased garbage, and forgotten no entry
		}
		return percolatortest.Pass
	})
	var once sync.Once
	col, err := collector(t, env.NewClient(percolatortest.Configure(shortRetention)), admin.CollectorConfig{Lease: 5 * time.Second, Progress: func(col admin.Collection) {
		if col.Phase == model.CollectionErase {
			once.Do(func() {
				if _, err := collector(t, dead, admin.CollectorConfig{Lease: time.Hour}).Collect(ctx); err == nil || !env.FaultsOf(dead).Crashed() {
					t.Errorf("the collector did not die: %v", err)
				}
				time.AfterFunc(100*time.Millisecond, func() { env.Clock.Advance(time.Hour + time.Second) })
			})
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	if col.Phase != model.CollectionDone {
		t.Errorf("the cycle ended in %+v", col)
	}
	fixture.WantCells(t, ctx, env, "in the end", 24, 0, 24, 0)
	env.Audit(t, collected)
}

// copyRow writes a row of the journal with entries again, with a greater number, as a copy that
// arrives now.
func copyRow(t *testing.T, ctx context.Context, env *percolatortest.Env) (key string) {
	t.Helper()
	tbl := env.Store().Open("percolator_journal")
	var batch []byte
	fixture.Must(t, tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, it := range r["journal"] {
			if it.Column == "journal:batch" {
				key, batch = r.Key(), it.Value
				return false
			}
		}
		return true
	}))
	if batch == nil {
		t.Fatal("the journal is empty")
	}
	key = key[:23] + "\x7f\x01"
	mut := bigtable.NewMutation()
	mut.Set("journal", "batch", 1000, batch)
	fixture.Must(t, tbl.Apply(ctx, key, mut))
	return key
}

func journalHas(t *testing.T, ctx context.Context, env *percolatortest.Env, key string) bool {
	t.Helper()
	r, err := env.Store().Open("percolator_journal").ReadRow(ctx, key)
	fixture.Must(t, err)
	return len(r) > 0
}

// An entry at or below the watermark that arrives while a cycle erases is not taken: its locks may
// not have been resolved before. The next cycle takes it (J10).
func TestCollectionLeavesEntriesThatComeLate(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionLeavesEntriesThatComeLate)
}

func testCollectionLeavesEntriesThatComeLate(t *testing.T) {
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	fixture.Put(t, ctx, c, "r", "c", "w")
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(afterwards)
	late := ""
	_, err := collector(t, c, admin.CollectorConfig{Progress: func(col admin.Collection) {
		if col.Phase == model.CollectionErase && late == "" {
			late = copyRow(t, ctx, env)
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	if rows, _ := streamsLeft(t, ctx, env); rows != 1 || !journalHas(t, ctx, env, late) {
		t.Errorf("%d rows of the journal are left, want the late one", rows)
	}
	env.Clock.Advance(afterwards)
	collect(t, ctx, c)
	env.Audit(t, collected)
	if rows, _ := streamsLeft(t, ctx, env); rows != 0 {
		t.Errorf("%d rows of the journal are left", rows)
	}
}

// A duplicate of an append that lands when its entries have been collected brings the row back, and
// the next cycle takes it again.
func TestLateDuplicateOfAnEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLateDuplicateOfAnEntry)
}

func testLateDuplicateOfAnEntry(t *testing.T) {
	env := newCollectorEnv(t)
	ctx := fixture.Context(t)
	writer, late := env.NewClient(percolatortest.Configure(shortRetention)), percolatortest.NewHold()
	env.FaultsOf(writer).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows || r.Method == percolatortest.MutateRow {
			return late.Copy()
		}
		return percolatortest.Pass
	})
	for _, v := range []string{"1", "2", "3"} {
		fixture.Put(t, ctx, writer, "r", "c", v)
	}
	fixture.Must(t, writer.Flush(ctx))
	env.Clock.Advance(afterwards)
	if col := collect(t, ctx, env.Client); col.Versions != 4 {
		t.Errorf("collected %+v", col)
	}
	if rows, _ := streamsLeft(t, ctx, env); rows != 0 {
		t.Errorf("%d rows of the journal are left", rows)
	}
	late.Release()
	if rows, _ := streamsLeft(t, ctx, env); rows == 0 {
		t.Error("no late duplicate has landed")
	}
	env.Clock.Advance(afterwards)
	collect(t, ctx, env.Client)
	if rows, _ := streamsLeft(t, ctx, env); rows != 0 {
		t.Errorf("%d rows of the journal are left", rows)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "3")
	env.Audit(t, collected)
}

var manyRows = flag.Int("collector.clean", 100_000, "how many clean rows there are in the larger table of TestCollectionCostsTheChange")

// A cycle costs what has changed, not what the table holds: ten times the changes cost ten times
// the rows and at most ten times the requests, ten times the clean rows cost nothing.
func TestCollectionCostsTheChange(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCollectionCostsTheChange)
}

func testCollectionCostsTheChange(t *testing.T) {
	const clean = 10_000
	before := 0
	for _, changed := range []int{100, 1000, 10_000}[:fixture.Of(3, 2)] {
		read, requests := costOfCollection(t, clean, changed)
		if read != 2*changed || before > 0 && requests > 10*before {
			t.Errorf("%d changed rows: read %d rows in %d requests, %d for a tenth of them", changed, read, requests, before)
		}
		if before = requests; changed != 1000 {
			continue
		}
		among, amongRequests := costOfCollection(t, *manyRows, changed)
		if among != read || max(requests, amongRequests) > min(requests, amongRequests)+4 { // shared streams differ
			t.Error("the cost follows the table")
		}
	}
}

// costOfCollection is how many rows, and in how many requests, a cycle reads after some of the rows
// have changed.
func costOfCollection(t *testing.T, clean, changed int) (read, requests int) {
	t.Helper()
	env := newCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.FillLongAgo(t, ctx, env, "t", clean)
	fixture.Fill(t, ctx, env, "t", changed)
	env.Clock.Advance(afterwards)
	by := env.NewClient(percolatortest.Configure(shortRetention))
	if col := collect(t, ctx, by); col.Rows != int64(changed) || col.Versions != 2*int64(changed) {
		t.Errorf("among %d rows: collected %+v", clean, col)
	}
	for _, r := range env.FaultsOf(by).Requests() {
		if r.Table == "t" && r.Method == percolatortest.ReadRows {
			read += r.Rows
		}
		if r.Table == "t" {
			requests++
		}
	}
	requests += len(env.FaultsOf(by).JournalRequests())
	t.Logf("%d changed rows among %d: read %d rows, %d requests", changed, clean, read, requests)
	return read, requests
}

// A share of a watermark that was never published, as a row of the lease may hold it that is newer
// than the meta row, erases nothing.
func TestShareAboveTheWatermark(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.Must(t, c.Flush(ctx))
	streams, err := journal.Streams(ctx, c.Engine().Store)
	fixture.Must(t, err)
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	type rows struct {
		ID   []byte
		Rows []uint64
	}
	var list []rows
	for _, st := range streams {
		list = append(list, rows{[]byte(st.ID), []uint64{1, 9}})
	}
	share, err := json.Marshal(map[string]any{"Watermark": now, "Asked": now, "Streams": list})
	fixture.Must(t, err)
	state, err := json.Marshal(map[string]any{"Phase": model.CollectionErase, "Safepoint": now, "ByJournal": true, "Holder": "another", "Expires": now.Add(time.Hour)})
	fixture.Must(t, err)
	fixture.Plant(t, ctx, env, "percolator_meta", "collector", "meta", "share-00", 1000, string(share))
	fixture.Plant(t, ctx, env, "percolator_meta", "collector", "meta", "state", 1000, string(state))
	_, err = collector(t, c, admin.CollectorConfig{}).Collect(ctx)
	fixture.WantErr(t, err, percolator.ErrCorrupt)
	fixture.WantCells(t, ctx, env, "above the watermark", 2, 0, 2, 0)
	if rows, _ := streamsLeft(t, ctx, env); rows == 0 {
		t.Error("the entries have gone")
	}
}
