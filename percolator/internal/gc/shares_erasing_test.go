package gc_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

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
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	const clients, rows = 24, 4 // more shares than collectors, however streams fall into shards
	writeStreams(t, ctx, env, clients, rows)
	env.Clock.Advance(fixture.PastRetention)

	sent := make([]atomic.Int64, n)
	var mu sync.Mutex
	var did []model.Collection
	var helpers sync.WaitGroup
	help := func(sent *atomic.Int64) {
		c := env.NewClient(fixture.ShortRetention)
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
			col, err := fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(ctx)
			if err != nil || col.Phase != model.CollectionErase || col.Holder == "" || col.Safepoint == 0 {
				t.Errorf("a collector beside another: %+v, %v", col, err)
			}
			mu.Lock()
			defer mu.Unlock()
			did = append(did, col)
		})
		<-claimed
	}
	leader := env.NewClient(fixture.ShortRetention)
	var erasing atomic.Bool
	slowly(env, leader, func(r percolatortest.Request) func() {
		if erasing.Load() && r.Table != "percolator_meta" {
			sent[0].Add(1)
		}
		return nil
	})
	var once sync.Once
	col, err := fixture.NewCollector(t, leader, model.CollectorConfig{Progress: func(col model.Collection) {
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
	if col.Versions > 2*col.Rows || col.Rows+col.Unread < clients*rows || left.Versions <= 0 || left.Rows <= 0 {
		t.Errorf("collected %+v, of that the others %+v", col, did)
	}
	fixture.WantCells(t, ctx, env, "in the end", clients*rows, 0, clients*rows, 0)
	env.Audit(t, fixture.Collected)
	fixture.WantEntries(t, ctx, env, "in the end", 0)
	each := make([]int, n)
	for i := range sent {
		each[i] = int(sent[i].Load())
	}
	return each
}

// A whole cycle, but for its drain, is divided: requests of 5 ms take the less time the more
// collectors there are. Their pace makes few rows take as long as many.
func TestCollectorsDivideACycle(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		var took []time.Duration
		for _, n := range []int{1, 2, 4, 8} {
			took = append(took, divideCycle(t, n))
			t.Logf("%d collectors: %v, %.1f times as fast as one", n, took[len(took)-1], took[0].Seconds()/took[len(took)-1].Seconds())
		}
		// Some 2 s are not divided: turns, and what only the holder of the lease does.
		if took[1] > took[0]*6/10 || took[2] > took[0]*35/100 || took[3] > took[0]*3/10 {
			t.Errorf("1, 2, 4 and 8 collectors take %v", took)
		}
	})
}

// divideCycle is how long a cycle of n collectors takes from the end of its drain on.
func divideCycle(t *testing.T, n int) time.Duration {
	t.Helper()
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	const clients, rows = 64, 20
	writeStreams(t, ctx, env, clients, rows)
	env.Clock.Advance(fixture.PastRetention)
	client := func() *percolator.Client {
		c := env.NewClient(fixture.ShortRetention)
		slowly(env, c, func(percolatortest.Request) func() { return nil })
		return c
	}
	const pace = 50
	leader, helpers := client(), make([]*percolator.Client, n-1)
	for i := range helpers {
		helpers[i] = client()
	}
	var helping sync.WaitGroup
	var started time.Time
	col, err := fixture.NewCollector(t, leader, model.CollectorConfig{RowsPerSecond: pace, Progress: func(col model.Collection) {
		if col.Phase != model.CollectionResolve || !started.IsZero() {
			return
		}
		started = time.Now()
		for _, c := range helpers {
			helping.Go(func() {
				for {
					if _, err := fixture.NewCollector(t, c, model.CollectorConfig{RowsPerSecond: pace}).Collect(ctx); err == nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}}).Collect(ctx)
	took := time.Since(started)
	fixture.Must(t, err)
	helping.Wait()
	if col.Rows+col.Unread < clients*rows { // a page that is repeated counts twice
		t.Errorf("collected %+v", col)
	}
	env.Audit(t, fixture.Collected)
	fixture.WantEntries(t, ctx, env, "in the end", 0)
	return took
}

// A collector that dies with a share: another one takes it over when its lease has run out, and the
// cycle ends with nothing left.
func TestShareOfADeadCollector(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testShareOfADeadCollector)
}

func testShareOfADeadCollector(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	writeStreams(t, ctx, env, 6, 4)
	env.Clock.Advance(fixture.PastRetention)
	dead := env.NewClient(fixture.ShortRetention)
	env.FaultsOf(dead).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash // it has erased garbage, and forgotten no entry
		}
		return percolatortest.Pass
	})
	var once sync.Once
	col, err := fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{Lease: 5 * time.Second, Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase {
			once.Do(func() {
				if _, err := fixture.NewCollector(t, dead, model.CollectorConfig{Lease: time.Hour}).Collect(ctx); err == nil || !env.FaultsOf(dead).Crashed() {
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
	env.Audit(t, fixture.Collected)
}

// An entry at or below the watermark that arrives while a cycle erases is not taken: its locks may
// not have been resolved before. The next cycle takes it (J10).
func TestCollectionLeavesEntriesThatComeLate(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionLeavesEntriesThatComeLate)
}

func testCollectionLeavesEntriesThatComeLate(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	fixture.Put(t, ctx, c, "r", "c", "w")
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	late := ""
	_, err := fixture.NewCollector(t, c, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase && late == "" {
			late = copyRow(t, ctx, env)
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	fixture.WantEntries(t, ctx, env, "with the late one", 1)
	r, err := env.Store().Open("percolator_journal").ReadRow(ctx, late)
	if fixture.Must(t, err); len(r) == 0 {
		t.Error("the late one has gone")
	}
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, c)
	env.Audit(t, fixture.Collected)
	fixture.WantEntries(t, ctx, env, "in the end", 0)
}

// A duplicate of an append that lands when its entries have been collected brings the row back, and
// the next cycle takes it again.
func TestLateDuplicateOfAnEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLateDuplicateOfAnEntry)
}

func testLateDuplicateOfAnEntry(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	writer, late := env.NewClient(fixture.ShortRetention), percolatortest.NewHold()
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
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, env.Client); col.Versions != 4 {
		t.Errorf("collected %+v", col)
	}
	fixture.WantEntries(t, ctx, env, "before the duplicate", 0)
	late.Release()
	if fixture.CountJournal(t, ctx, env).Entries == 0 {
		t.Error("no late duplicate has landed")
	}
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, env.Client)
	fixture.WantEntries(t, ctx, env, "in the end", 0)
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "3")
	env.Audit(t, fixture.Collected)
}

var manyRows = flag.Int("collector.clean", 100_000, "how many clean rows there are in the larger table of TestCollectionCostsTheChange")

// A cycle costs what has changed, not what the table holds: ten times the changes cost ten times
// the rows and at most ten times the requests, ten times the clean rows cost nothing.
func TestCollectionCostsTheChange(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	percolatortest.Bubble(t, testCollectionCostsTheChange)
}

func testCollectionCostsTheChange(t *testing.T) {
	const clean = 10_000
	before := 0
	for _, changed := range []int{100, 1000, 10_000}[:fixture.Of(3, 2)] {
		read, requests := costOfCollection(t, clean, changed)
		if read != changed || before > 0 && requests > 10*before {
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

// costOfCollection is in how many rows, and by how many requests, a cycle erases after some of the
// rows have changed.
func costOfCollection(t *testing.T, clean, changed int) (read, requests int) {
	t.Helper()
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.FillLongAgo(t, ctx, env, "t", clean)
	fixture.Fill(t, ctx, env, "t", changed)
	env.Clock.Advance(fixture.PastRetention)
	by := env.NewClient(fixture.ShortRetention)
	col := fixture.Collect(t, ctx, by)
	if col.Rows+col.Unread != int64(changed) || col.Versions != 2*col.Rows {
		t.Errorf("among %d rows: collected %+v", clean, col)
	}
	read = int(col.Unread)
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
	env := fixture.NewCollectorEnv(t)
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
	_, err = fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(ctx)
	fixture.WantErr(t, err, percolator.ErrCorrupt)
	fixture.WantCells(t, ctx, env, "above the watermark", 2, 0, 2, 0)
	if fixture.CountJournal(t, ctx, env).Entries == 0 {
		t.Error("the entries have gone")
	}
}
