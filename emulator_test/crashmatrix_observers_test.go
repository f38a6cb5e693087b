package emulator_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// seenChanges is what observers were called for.
type seenChanges struct {
	mu sync.Mutex
	at map[percolator.Cell]map[tso.Timestamp]string
}

func (s *seenChanges) observe(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[ch.Cell] == nil {
		s.at[ch.Cell] = map[tso.Timestamp]string{}
	}
	s.at[ch.Cell][ch.CommitTS] = string(ch.Value)
	return nil
}

// Clients die at every request, before and after it was delivered, and nobody ever reads their
// rows. A worker calls the observers of all observed cells of those transactions that passed the
// commit point, and no others (I10, I11).
func TestCrashedTransactionsReachObservers(t *testing.T) {
	t.Parallel()
	m := newMatrixEnv(t)
	s := &scenario{name: "observed", columns: [3]string{"seen", "plain", "seen"}, fresh: true, pokes: true}
	wanted := []string{"the client dies before it", "nothing answered from it on", "a copy delivered late, its client dead"}
	var runs []*crashRun
	for _, at := range recordScenario(t, m, s) {
		for _, f := range faults() {
			if !slices.Contains(wanted, f.name) {
				continue
			}
			x := m.newRun(t, s, f.sequential)
			t.Cleanup(x.end)
			x.target = at.id
			x.watch(actionsOf(x, f))
			x.send(x.transact)
			f.unfold(x)
			x.hold.Drop()
			if x.look(); x.committed != f.passedIn(s, at) {
				t.Errorf("%s, %s: committed %v", at.id, f.name, x.committed)
			}
			runs = append(runs, x)
		}
	}
	m.Clock.Advance(fixture.LockTTL + time.Minute)
	seen := observeAll(t, m)
	committed := 0
	for _, x := range runs {
		if x.committed {
			committed++
		}
		for _, name := range []string{"P", "S1", "S2", "W"} {
			x.wantSeen(name, seen.at[x.cell(name)])
		}
	}
	t.Logf("%d transactions, %d of which committed", len(runs), committed)
	if least := 3 * 10; len(runs) < least || committed == 0 || committed == len(runs) {
		t.Errorf("%d transactions, %d of which committed; want at least %d", len(runs), committed, least)
	}
}

// observeAll runs a worker with observers of all observed columns until nothing is left to do.
func observeAll(t *testing.T, m *matrixEnv) *seenChanges {
	t.Helper()
	seen := &seenChanges{at: map[percolator.Cell]map[tso.Timestamp]string{}}
	r := observers.NewRegistry()
	for _, table := range m.other.Schema().Tables {
		for _, column := range slices.Concat(table.Observed, table.Weak) {
			r.Observe(fmt.Sprint("of ", table.Name, " ", column), table.Name, column, seen.observe)
		}
	}
	w, err := observers.NewWorker(m.other, r, observers.Config{ScanInterval: 10 * time.Millisecond, Grace: time.Nanosecond})
	fixture.Must(t, err)
	ctx, stop := context.WithCancel(fixture.Context(t))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	fixture.Must(t, w.WaitIdle(ctx))
	stop()
	fixture.Must(t, <-ended)
	return seen
}

// wantSeen: observed cells are seen once, as the commit left them. A weak notification may be seen
// although its transaction did not commit.
func (x *crashRun) wantSeen(name string, seen map[tso.Timestamp]string) {
	x.Helper()
	value, once := seen[x.commitTS]
	switch want := x.committed && slices.Contains(x.notifiedCells(), name); {
	case name == "W" && (once || !x.committed):
	case want && (!once || len(seen) != 1 || value != "new"):
		x.Errorf("%s, started at %d and committed at %d: observers were called for %v", x.cell(name), x.startTS(), x.commitTS, seen)
	case !want && len(seen) != 0:
		x.Errorf("%s, committed %v: observers were called for %v", x.cell(name), x.committed, seen)
	}
}
