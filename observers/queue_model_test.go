package observers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/tso"
)

// TestQueueAgreesWithAFreshPage: workers park a cell, operators retry it, and pages of the scan and
// of WaitIdle arrive in any order. Whatever the queue was told, a page that is read after all of it
// makes the cell pending exactly if the store holds no parking: a retry is not lost, and a cell
// that is parked does not run.
func TestQueueAgreesWithAFreshPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t, Config{}, options{})
		const change = tso.Timestamp(10)
		stored := observerState{} // what the store holds of the observer
		var pages []*storedStates // in flight
		read := func() *storedStates { return &storedStates{f.q.asOf(), []observerState{stored}} }
		deliver := func(p *storedStates) { f.q.offer(f.col, "r", change, found, p) }
		running := false
		var j job
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
				f.q.mu.Lock() // what is delayed ripens meanwhile
				e := f.col.cells["r"]
				ready := !running && e != nil && e.state == stateReady
				if ready { // else what made it ready was undone: take would wait for another cell
					i, blocked := e.next(time.Now(), true)
					ready = i >= 0 && !blocked
				}
				f.q.mu.Unlock()
				if !ready {
					rt.Skip()
				}
				j, _ = f.q.takeJob()
				running = true
			},
			"park": func(rt *rapid.T) {
				if !running {
					rt.Skip()
				}
				stored.parked = change // the store learns it before the queue
				f.q.finish(j, outcome{state: runParked, err: errTest})
				running = false
			},
			"fail": func(rt *rapid.T) {
				if !running {
					rt.Skip()
				}
				f.q.finish(j, outcome{state: runFailed, err: errTest})
				running = false
			},
		})
		deliver(read())
		if running { // its end decides
			return
		}
		f.q.mu.Lock()
		defer f.q.mu.Unlock()
		e := f.col.cells["r"]
		if pending := e != nil && e.pending(&e.tasks[0]); pending != (stored.parked < change) {
			rt.Fatalf("the store holds %+v, and the cell is pending: %v", stored, pending)
		}
	})
}

// modelTask is what the model of TestQueueAgreesWithAModel knows of one observer's part of a cell.
type modelTask struct {
	waits  bool // for a run, since it was notified and has not failed
	pauses bool // for a run after a failure or a snooze
	runs   bool
	again  bool      // it was notified during the run
	due    time.Time // when it waits or pauses; after the run, if again
}

// TestQueueAgreesWithAModel: cells of two columns are notified, taken and ended in every way while
// time passes, and two observers wait for others. Whatever is taken may begin: it was due, and what
// it waits for was quiet or its limit was over. Whatever may begin is ready. In the end everything
// has run, and nothing counts as busy.
func TestQueueAgreesWithAModel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { // without a deadline, which means nothing here
			pick := func(name string, of ...time.Duration) time.Duration { return rapid.SampledFrom(of).Draw(rt, name) }
			headStart := func(name string) Option { return HeadStart(pick("head start of "+name, 0, 3, 5)) }
			limit := pick("limit", 1, 4, 100)
			first := with(options{}, Collapse(pick("collapse", 0, 3)), headStart("o0"))
			batch := with(batchOf(2, 0), After(limit, "o0"), headStart("o1"))
			last := with(options{}, After(limit, "o0", "o1", "o2"), Collapse(pick("last collapse", 0, 2)), headStart("o3"))
			observers := []options{first, batch, with(options{}, headStart("o2")), last}
			if rapid.Bool().Draw(rt, "a cycle") {
				observers[0] = with(first, After(limit, "o3"))
			}
			if rapid.Bool().Draw(rt, "one at a time") {
				observers[3].concurrent = 1
			}
			f := newFixture(t, Config{Concurrency: 64, MinBackoff: 1, MaxBackoff: 1}, observers...)
			runners := f.col.runners
			columns := []*column{f.col, {Column: Column{"t", "d"}, cells: map[string]*entry{}}}
			f.col.runners, columns[1].runners = runners[:2], runners[2:] // o0 and o1 of one column, o2 and o3 of the other

			model := map[*runner]map[string]*modelTask{}
			for _, rn := range runners {
				model[rn] = map[string]*modelTask{}
			}
			busy := func(rn *runner) (n int) {
				for _, m := range model[rn] {
					if m.waits || m.runs {
						n++
					}
				}
				return n
			}
			quiet := func(rn *runner) bool {
				for _, u := range rn.awaits {
					if busy(u) > 0 {
						return false
					}
				}
				return true
			}
			mayBegin := func(rn *runner, m *modelTask, now time.Time) bool {
				return (m.waits || m.pauses) && !m.due.After(now) && (quiet(rn) || !m.due.Add(rn.afterLimit).After(now))
			}
			clock := tso.Timestamp(10)
			var running []job
			starts := map[*run]tso.Timestamp{}
			take := func() bool {
				j, ok := f.q.tryTake()
				if !ok {
					return false
				}
				jobs, now, allowed := j.jobs, time.Now(), false
				for _, j := range jobs {
					m := model[j.runner][j.entry.row]
					if len(jobs) > 1 && j.entry.tasks[j.entry.running].alone {
						rt.Fatalf("%s of %s has failed by itself, and runs in a batch", j.entry.row, j.runner.name)
					}
					if m == nil || m.runs || !m.waits && !m.pauses || m.due.After(now) {
						rt.Fatalf("%s of %s runs, and is %+v at %v", j.entry.row, j.runner.name, m, now)
					}
					allowed = allowed || mayBegin(j.runner, m, now)
				}
				if !allowed {
					rt.Fatalf("%s of %s begins while others are busy, before its limit", j.entry.row, j.runner.name)
				}
				clock++
				starts[j.run] = clock
				for _, j := range jobs {
					*model[j.runner][j.entry.row] = modelTask{runs: true}
				}
				running = append(running, jobs...)
				return true
			}
			end := func(i int, out outcome) {
				j := running[i]
				running = append(running[:i:i], running[i+1:]...)
				m := model[j.runner][j.entry.row]
				now := time.Now()
				switch {
				case out.state == runParked, out.done(): // nothing is left but what came during the run
					out.through = starts[j.run]
					*m = modelTask{waits: m.again, due: m.due}
				default:
					out.due = now.Add(2)
					*m = modelTask{waits: out.state == runIsolated, pauses: out.state != runIsolated, due: out.due}
				}
				f.q.finish(j, out)
			}
			// nothingIsLost takes what there is, and looks for what should have been there.
			nothingIsLost := func() {
				for take() {
				}
				f.q.mu.Lock()
				defer f.q.mu.Unlock()
				now := time.Now()
				for _, c := range columns {
					if observers[3].concurrent > 0 && slices.ContainsFunc(running, func(j job) bool { return j.entry.column == c }) {
						continue // a cell that waits for a slot waits with all its observers, until a run of the column ends
					}
					for row, e := range c.cells {
						for _, rn := range c.runners {
							if m := model[rn][row]; e.state != stateRunning && m != nil && mayBegin(rn, m, now) {
								rt.Fatalf("%s of %s may begin and is not ready: %+v at %v, entry %+v", row, rn.name, m, now, e)
							}
						}
					}
				}
			}
			rt.Repeat(map[string]func(*rapid.T){
				"notify": func(rt *rapid.T) {
					c := rapid.SampledFrom(columns).Draw(rt, "column")
					row := fmt.Sprint(rapid.IntRange(0, 2).Draw(rt, "row"))
					clock++
					f.q.offer(c, row, clock, dispatched, nil)
					for _, rn := range c.runners {
						m := model[rn][row]
						if m == nil {
							m = &modelTask{}
							model[rn][row] = m
						}
						due := time.Now().Add(rn.collapse)
						switch {
						case m.runs && !m.again:
							m.again, m.due = true, due
						case !m.runs && !m.waits && !m.pauses:
							m.waits, m.due = true, due
						}
					}
				},
				"pass":  func(rt *rapid.T) { f.pass(time.Duration(rapid.IntRange(1, 4).Draw(rt, "time"))) },
				"take":  func(rt *rapid.T) { take() },
				"drain": func(rt *rapid.T) { nothingIsLost() },
				"end": func(rt *rapid.T) {
					if len(running) == 0 {
						rt.Skip()
					}
					end(rapid.IntRange(0, len(running)-1).Draw(rt, "which"), rapid.SampledFrom([]outcome{
						{state: runCommitted}, {state: runCommitted}, {state: runCommitted}, {state: runFailed, err: errTest},
						{state: runParked, err: errTest}, {state: runSnoozed}, {state: runInconclusive, err: errTest}, {state: runIsolated},
					}).Draw(rt, "outcome"))
				},
				"": func(rt *rapid.T) {
					f.q.mu.Lock()
					defer f.q.mu.Unlock()
					for _, rn := range runners {
						if n := busy(rn); rn.busy != n {
							rt.Fatalf("%s: %d count as busy, want %d", rn.name, rn.busy, n)
						}
					}
				},
			})
			for rounds := 0; ; rounds++ {
				for len(running) > 0 {
					end(0, outcome{state: runCommitted})
				}
				nothingIsLost()
				if queued, n := f.q.sizes(); queued+n == 0 {
					break
				}
				if rounds > 1000 {
					rt.Fatal("cells are left that nobody can take")
				}
				f.pass(1)
			}
			f.q.mu.Lock()
			defer f.q.mu.Unlock()
			for _, rn := range runners {
				if rn.busy != 0 || rn.busyUpstream != 0 || rn.held.Len() != 0 {
					rt.Errorf("%s: %d busy, %d busy upstream, %d held", rn.name, rn.busy, rn.busyUpstream, rn.held.Len())
				}
			}
		})
	})
}
