package observers

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// tryTake is take, if there is something to take.
func (q *queue) tryTake() (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ready.len() > 0 {
		if r := q.takeNext(time.Now()); r != nil {
			return r.jobs[0], true
		}
	}
	return job{}, false
}

// TestBatchesLoseNothing: cells are notified, taken in batches and by themselves, and end in every
// way and in any order. No cell runs twice at once, no batch is too large, and in the end every
// observer has run for every cell's newest notification, and all slots are free.
func TestBatchesLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const most = 3
		o := batchOf(most, time.Duration(rapid.IntRange(0, 1).Draw(rt, "wait")))
		o.concurrent = rapid.IntRange(0, 2).Draw(rt, "concurrent")
		f := newFixture(t, Config{Concurrency: 4, MinBackoff: 1, MaxBackoff: 1}, o, options{})
		if rapid.Bool().Draw(rt, "batch last") {
			f.col.runners[0], f.col.runners[1] = f.col.runners[1], f.col.runners[0]
		}
		clock := tso.Timestamp(10)
		newest := map[string]tso.Timestamp{}
		ran := map[*runner]map[string]tso.Timestamp{f.col.runners[0]: {}, f.col.runners[1]: {}}
		var running []job
		ripen := func() {
			f.q.ripen()
			for _, rn := range f.col.runners {
				f.q.ripenBatch(rn)
			}
		}
		take := func() bool {
			ripen()
			j, ok := f.q.tryTake()
			if !ok {
				return false
			}
			jobs := j.jobs
			if len(jobs) > max(1, j.runner.maxCells) {
				rt.Fatalf("%d cells at once", len(jobs))
			}
			for _, j := range jobs {
				for _, other := range running {
					if other.entry == j.entry {
						rt.Fatalf("%s runs twice", j.entry.row)
					}
				}
				running = append(running, j)
			}
			if o.concurrent > 0 && j.runner.active > o.concurrent && j.runner.maxCells > 0 {
				rt.Fatalf("%d runs at once", j.runner.active)
			}
			return true
		}
		end := func(i int, out outcome) {
			j := running[i]
			running = append(running[:i:i], running[i+1:]...)
			if out.done() {
				ran[j.runner][j.entry.row] = out.through
			}
			f.end(j, out)
		}
		success := func() outcome {
			clock++
			return outcome{state: runCommitted, through: clock}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"notify": func(rt *rapid.T) {
				row := fmt.Sprint(rapid.IntRange(0, 6).Draw(rt, "row"))
				clock++
				newest[row] = clock
				f.q.offer(f.col, row, clock, rapid.SampledFrom([]entryClass{dispatched, found}).Draw(rt, "how"), nil)
			},
			"take": func(rt *rapid.T) {
				if !take() {
					rt.Skip()
				}
			},
			"end": func(rt *rapid.T) {
				if len(running) == 0 {
					rt.Skip()
				}
				out := rapid.SampledFrom([]outcome{
					success(), success(), {state: runFailed, err: errTest}, {state: runInconclusive, err: errTest},
					{state: runConflicted, err: errTest, conflict: &percolator.ConflictError{}}, {state: runSnoozed},
					{state: runIsolated, due: time.Now()}, {state: runInconclusive, err: errTest, due: time.Now()},
				}).Draw(rt, "outcome")
				end(rapid.IntRange(0, len(running)-1).Draw(rt, "which"), out)
			},
		})
		for deadline := time.Now().Add(10 * time.Second); ; {
			for len(running) > 0 {
				end(0, success())
			}
			if queued, _ := f.q.sizes(); queued == 0 {
				break
			}
			if !take() && time.Now().After(deadline) {
				rt.Fatal("cells are left that nobody can take")
			}
		}
		for _, rn := range f.col.runners {
			for row, ts := range newest {
				if ran[rn][row] < ts {
					rt.Errorf("%s has not run for %s at %d", rn.name, row, ts)
				}
			}
			if rn.active != 0 || rn.running != 0 || rn.gathered.cells.len() != 0 {
				rt.Errorf("%s: %d runs and %d cells are in flight", rn.name, rn.active, rn.running)
			}
		}
		if f.q.retries.active != 0 || f.q.running != 0 {
			rt.Errorf("%d retries, %d cells", f.q.retries.active, f.q.running)
		}
	})
}
