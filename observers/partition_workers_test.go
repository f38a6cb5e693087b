package observers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// With a partition, observers run for everything, whether all workers have one or not, and each
// worker is registered while it lives.
func TestPartitionedWorkers(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, name := range []string{"all", "mixed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rows = 150
			e := newScanEnv(t, table())
			e.fill(rows)
			locks := e.rowLocks()
			plain := observers.Config{RowLocks: locks, DisableCollection: true}
			divided := plain
			divided.Partition = true
			var runs sync.Map
			r := observers.NewRegistry()
			r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
				runs.Store(ch.Cell.Row, true)
				return nil
			})
			var stops []func()
			start := func(cfg observers.Config) {
				_, stop := e.start(e.NewClient(), r, cfg)
				stops = append(stops, stop)
			}
			partitions := map[string]int{"all": 3, "mixed": 2}[name]
			for range partitions {
				start(divided)
			}
			e.until("the workers are listed and the table is divided", func() bool {
				seen, err := membership.Directory{Engine: e.client.Engine()}.Workers(e.ctx)
				return err == nil && len(seen.Live) == partitions && len(seen.Bounds["t"].Keys) > 0
			})
			for range 3 - partitions { // only now: alone it leaves nothing to divide
				start(plain)
			}
			e.until("nothing is pending", func() bool { return len(e.pending()) == 0 })
			runs.Clear()
			for i := range rows { // once more, now that the table is divided
				e.set(e.client, fmt.Sprintf("%05d", i), "in", "y")
			}
			e.until("nothing is pending", func() bool { return len(e.pending()) == 0 })
			count := 0
			runs.Range(func(any, any) bool { count++; return true })
			if count != rows {
				t.Errorf("%d rows were run for, want %d", count, rows)
			}
			for _, stop := range stops {
				stop()
			}
			if seen, err := (membership.Directory{Engine: e.client.Engine()}).Workers(e.ctx); err != nil || len(seen.Live) != 0 {
				t.Errorf("listed after they have stopped: %v, %v", seen.Live, err)
			}
		})
	}
}

// What an idle worker with a partition sends in addition: reads of one row, a timestamp each, and
// an occasional write.
func TestPartitionIdleRequests(t *testing.T) {
	t.Parallel()
	e, r := newScanEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	c := e.NewClient()
	w, stop := e.start(c, r, observers.Config{Partition: true, Scanners: 1, DisableCollection: true, ReportInterval: -1})
	e.until("the worker is listed", func() bool {
		seen, err := membership.Directory{Engine: e.client.Engine()}.Workers(e.ctx)
		return err == nil && len(seen.Live) == 1
	})
	e.searched(w, 2)
	stop()
	counts := map[string]int64{}
	for _, req := range e.FaultsOf(c).Requests() {
		if req.Table == "percolator_meta" {
			counts[req.Method]++
		}
	}
	// One write to register, one to deregister; each look is one read (TestPartitionIdleCost counts
	// those in a minute).
	if n := counts[percolatortest.MutateRows]; n != 2 {
		t.Errorf("%d writes", n)
	}
	delete(counts, percolatortest.MutateRows)
	delete(counts, percolatortest.ReadRows)
	if len(counts) != 0 {
		t.Errorf("an idle worker sent %v to percolator_meta", counts)
	}
}
