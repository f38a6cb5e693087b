package emulator_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The crash matrix. A transaction writes a primary P and secondaries S1 and S2 in two tables. Every
// request that it sends to the store and the oracle, from Begin to phase two, meets every fault
// that a request or its sender can have; then somebody else comes along – a reader, a writer, a
// worker – and in the end the stored cells must tell one story (docs/internals/PROTOCOL.md, I1 to
// I18).
//
// The requests are not listed anywhere: a run without faults records them, so a request that the
// protocol adds enters the matrix by itself. What must be there afterwards is known twice: from the
// fault and the place of the request before, at or after the commit point (fault.expect), and from
// the primary's raw cells (crashRun.applied). The two must agree, and everything else follows from
// them.
//
//	crashmatrix_requests_test.go   which requests there are, and their places
//	crashmatrix_scenarios_test.go  what the transaction does and meets
//	crashmatrix_faults_test.go     what happens to a request, and what must come of it
//	crashmatrix_actors_test.go     who meets the locks next, and what they must see
//	crashmatrix_run_test.go        one cell of the matrix
//	crashmatrix_audit_test.go      the stored cells afterwards
//	crashmatrix_process_test.go    the transaction in a process that is killed or stopped
//	crashmatrix_child_test.go      that process
//	crashmatrix_resolvers_test.go  the same for those who resolve the transaction's locks
//	crashmatrix_observers_test.go  the same, with a worker of package observers
//	crashmatrix_batch_test.go      the same for the run of a batch observer
//	crashmatrix_anomalies_test.go  the anomalies that the rules prevent, one by one

// matrixEnvs is how many stores are at work at once. Each has an oracle whose clock stands still
// unless a test moves it, so a wait for a TTL is never hidden by the passing of time.
const matrixEnvs = 6

// matrixFloor is the least number of cells of the matrix: fewer mean that requests, faults or
// actors were lost.
const matrixFloor = 1600

// enoughCells are judged by what is usual: fewer, of a sample, may all end alike by chance.
const enoughCells = 64

// enoughFailures end the test: what breaks the protocol breaks hundreds of cells.
const enoughFailures = 30

// matrixCell is one combination.
type matrixCell struct {
	scenario *scenario
	target   requestID
	fault    *fault
	actor    nextActor
	update   bool // the transaction runs in Update
	passed   bool // the commit point, when the actor comes
	want     expectation
}

func (m *matrixCell) String() string {
	actor := m.actor.name
	if m.update {
		actor += " after Update"
	}
	return fmt.Sprintf("%s/%s/%s/%s", m.scenario.name, m.target, m.fault.name, actor)
}

func TestCrashMatrix(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	tally := runMatrix(t, matrixEnvs, matrixFloor, scenarios(), faults())
	if tally.ran.Load() >= matrixFloor && tally.unknown.Load() == 0 {
		t.Error("no client is told that the outcome is unknown")
	}
}

// runMatrix plays every cell of these scenarios and faults, each at every request.
func runMatrix(t *testing.T, stores, floor int, scenarios []*scenario, faults []*fault, opts ...percolatortest.Option) *matrixTally {
	t.Helper()
	envs := make([]*matrixEnv, stores)
	for i := range envs {
		envs[i] = newMatrixEnv(t, opts...)
	}
	var all []*matrixCell
	for _, s := range scenarios {
		all = append(all, cellsOfScenario(s, recordScenario(t, envs[0], s), faults)...)
	}
	tally := &matrixTally{}
	work := make(chan *matrixCell)
	var workers sync.WaitGroup
	for _, m := range envs {
		workers.Go(func() {
			for cell := range work {
				if !t.Run(cell.String(), func(t *testing.T) { tally.add(cell, m.play(t, cell)) }) {
					tally.failed.Add(1)
				}
			}
		})
	}
	if len(all) < floor {
		t.Errorf("the matrix has %d cells, want at least %d", len(all), floor)
	}
	all = slices.DeleteFunc(all, func(c *matrixCell) bool { return !fixture.Sampled(c.String()) })
	for _, cell := range all {
		if tally.failed.Load() >= enoughFailures {
			break
		}
		work <- cell
	}
	close(work)
	workers.Wait()
	tally.report(t, len(all))
	return tally
}

// cellsOfScenario multiplies requests, faults and actors.
func cellsOfScenario(s *scenario, points []crashPoint, faults []*fault) (all []*matrixCell) {
	for _, at := range points {
		for _, f := range faults {
			if f.without != nil && f.without(at) {
				continue
			}
			for _, c := range actorsAfter(s, f) {
				passed := f.passedIn(s, at)
				if !c.needsCommit || passed {
					all = append(all, &matrixCell{scenario: s, target: at.id, fault: f, actor: c, passed: passed, want: f.expectIn(s, at, c.rewrites)})
				}
			}
			// Update differs from Commit where it has to decide whether to repeat.
			if want := f.expectIn(s, at, false); s.updates && f.launch == nil && want.result != resultSuccess {
				all = append(all, &matrixCell{scenario: s, target: at.id, fault: f, actor: nextWorker, update: true, passed: f.passedIn(s, at), want: want})
			}
		}
	}
	return all
}

// actorsAfter is who may come next. Where nothing can be left to resolve one actor is enough.
func actorsAfter(s *scenario, f *fault) []nextActor {
	if !f.leaves {
		return []nextActor{nextWorker}
	}
	return s.actors
}

// matrixTally counts what was run.
type matrixTally struct {
	ran, committed, aborted, unknown, failed atomic.Int64

	mu     sync.Mutex
	byKind map[string]int
}

func (n *matrixTally) add(c *matrixCell, applied bool) {
	n.ran.Add(1)
	if applied {
		n.committed.Add(1)
	} else {
		n.aborted.Add(1)
	}
	if c.want.result == resultUnknown {
		n.unknown.Add(1)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byKind == nil {
		n.byKind = map[string]int{}
	}
	for kind, name := range map[string]string{"scenario": c.scenario.name, "fault": c.fault.name, "actor": c.actor.name, "request": c.scenario.name + ": " + c.target.String()} {
		n.byKind[kind+" "+name]++
	}
}

// report prints how many cells were run, and fails when there are suspiciously few.
func (n *matrixTally) report(t *testing.T, wanted int) {
	t.Helper()
	if fixture.Picked() {
		return
	}
	t.Logf("%d cells of the matrix: %d committed, %d did not, %d with an outcome that the client cannot know",
		n.ran.Load(), n.committed.Load(), n.aborted.Load(), n.unknown.Load())
	for _, kind := range slices.Sorted(maps.Keys(n.byKind)) {
		t.Logf("%5d %s", n.byKind[kind], kind)
	}
	if ran := int(n.ran.Load()); ran != wanted {
		t.Errorf("%d cells were run to their end, want all %d", ran, wanted)
	}
	if wanted >= enoughCells && (n.committed.Load() == 0 || n.aborted.Load() == 0) {
		t.Error("the matrix is one-sided")
	}
}

// matrixEnv is a store with a client for everybody but the transaction under test.
type matrixEnv struct {
	*percolatortest.Env
	other *percolator.Client
	runs  atomic.Int64
}

func newMatrixEnv(t testing.TB, opts ...percolatortest.Option) *matrixEnv {
	t.Helper()
	env := percolatortest.New(t, matrixSchema(), opts...)
	env.Clock.Stop()
	return &matrixEnv{Env: env, other: env.Client}
}

// matrixSchema has observed columns in both tables.
func matrixSchema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{
		{Name: "left", Observed: []string{"seen"}},
		{Name: "right", Observed: []string{"seen"}, Weak: []string{"poke"}},
	}}
}
