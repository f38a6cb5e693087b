package observers_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// What a client has left behind whose session has ended is lost for certain, and nobody waits for
// it (docs/OBSERVERS.md), whichever worker owns it.
func TestLostForCertainIsNotLeftToAnOwner(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLostForCertainIsNotLeftToAnOwner)
}

func testLostForCertainIsNotLeftToAnOwner(t *testing.T) {
	const rows = 30
	l := newLost(t, 10)
	l.registry = observers.NewRegistry()
	l.registry.Observe("o", "t", "in", l.j.observer("o"), observers.OneWorkerPerCell())
	var workers []*observers.Worker
	for range 2 {
		c := l.NewClient(l.withSessions())
		l.workers = append(l.workers, c)
		w, _ := l.start(c, l.registry, observers.Config{DisableCollection: true, Grace: time.Hour})
		workers = append(workers, w)
	}
	l.until("both know each other", func() bool { return workers[0].Peers() == 2 && workers[1].Peers() == 2 })
	l.idle(workers[0])
	if err := l.set2(l.dying, rows); err != nil {
		t.Fatal(err)
	}
	if err := l.dying.Flush(l.ctx); err != nil {
		t.Fatal(err)
	}
	l.FaultsOf(l.dying).Crash()
	l.found(rows)
}

// withSessions is a client with a session, whose hints arrive.
func (l *lost) withSessions() percolatortest.ClientOption {
	return percolatortest.Configure(func(cfg *percolator.Config) {
		o := l.sessions.Oracle(cfg.Oracle)
		cfg.Oracle = struct {
			tso.Oracle
			tso.Sessions
			tso.Hints
			tso.RowLocks
		}{o, o.(tso.Sessions), l.Oracle.(tso.Hints), l.Oracle.(tso.RowLocks)}
	})
}
