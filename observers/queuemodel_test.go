package observers

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/tso"
)

// TestQueueAgreesWithAFreshPage: workers park a cell, operators retry it, and pages of the scan and
// of WaitIdle arrive in any order. Whatever the queue was told, a page that is read after all of it
// makes the cell pending exactly if the store holds no parking: a retry is not lost, and a cell that
// is parked does not run.
func TestQueueAgreesWithAFreshPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t, Config{}, options{})
		const change = tso.Timestamp(10)
		stored := observerState{} // what the store holds of the observer
		var pages []*storedStates // under way
		read := func() *storedStates { return &storedStates{f.q.asOf(), []observerState{stored}} }
		deliver := func(p *storedStates) { f.q.offer(f.col, "r", change, found, p) }
		running := false
		var tn turn
		rt.Repeat(map[string]func(*rapid.T){
			"read": func(*rapid.T) { pages = append(pages, read()) },
			"deliver": func(rt *rapid.T) {
				if len(pages) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(pages)-1).Draw(rt, "page")
				deliver(pages[i])
				pages = append(pages[:i], pages[i+1:]...)
			},
			"dispatch":             func(*rapid.T) { f.q.offer(f.col, "r", change, dispatched, nil) },
			"retry":                func(*rapid.T) { stored.parked = 0 },
			"another worker parks": func(*rapid.T) { stored.parked = change },
			"take": func(rt *rapid.T) {
				e := f.col.cells["r"]
				if running || e == nil || e.state != stateReady {
					rt.Skip()
				}
				if i, blocked := e.next(time.Now(), true); i < 0 || blocked {
					rt.Skip() // what made it ready was undone: take would wait for another cell
				}
				tn, _ = f.q.take()
				running = true
			},
			"park": func(rt *rapid.T) {
				if !running {
					rt.Skip()
				}
				stored.parked = change // the store learns it before the queue
				f.q.finish(tn, outcome{err: errTest, parked: true})
				running = false
			},
			"fail": func(rt *rapid.T) {
				if !running {
					rt.Skip()
				}
				f.q.finish(tn, outcome{err: errTest})
				running = false
			},
		})
		deliver(read())
		e := f.col.cells["r"]
		if running { // its end decides
			return
		}
		if pending := e != nil && e.pending(&e.tasks[0]); pending != (stored.parked < change) {
			rt.Fatalf("the store holds %+v, and the cell is pending: %v", stored, pending)
		}
	})
}
