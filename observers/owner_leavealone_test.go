package observers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// What waits in one worker's collapse window, or for its batch, is not run by another one, whether
// it scans, starts and looks at every stream, or waits until nothing is left.
func TestNobodyRunsWhatAnotherWorkerCollapses(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	eachFindingInBubble(t, "", func(t *testing.T, by finding) { testLeftAlone(t, by, false) })
	eachFindingInBubble(t, "in batches", func(t *testing.T, by finding) { testLeftAlone(t, by, true) })
}

func testLeftAlone(t *testing.T, by finding, batch bool) {
	const rows, rounds = 60, 5
	e, j := newEnvOf(t, by, []percolator.Table{table()}), newJournal()
	r := observers.NewRegistry()
	run := func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	}
	if batch {
		r.ObserveBatch("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
			for _, ch := range changes {
				if err := run(ctx, tx, ch); err != nil {
					return err
				}
			}
			return nil
		}, observers.MaxWait(2*time.Second))
	} else {
		r.Observe("o", "t", "in", run, observers.Collapse(2*time.Second))
	}
	cfg := observers.Config{ScanInterval: 50 * time.Millisecond, Grace: time.Minute, Concurrency: rows, DisableCollection: true}
	mine := e.NewClient(e.direct())
	w, _ := e.start(mine, r, cfg)
	other, _ := e.start(e.NewClient(e.direct()), r, cfg)
	e.idle(w)
	for k := range rounds {
		for i := range rows {
			e.set(mine, fmt.Sprint(i), "in", fmt.Sprint(k))
		}
	}
	late, _ := e.start(e.NewClient(e.direct()), r, cfg)
	if err := late.WaitIdle(e.ctx); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]*observers.Worker{"another": other, "a late": late} {
		if s := w.Stats(); s.Attempts+s.Acknowledged != 0 {
			t.Errorf("%s worker made %d attempts, %d jobs for nothing", name, s.Attempts, s.Acknowledged)
		}
	}
	if s := w.Stats(); s.Conflicts != 0 || s.Observers["o"].Cells < rows || s.Observers["o"].Cells > rounds*rows {
		t.Errorf("%d runs for %d cells, %d conflicts", s.Runs, rows, s.Conflicts)
	}
}

// asked counts questions for hints.
type asked struct {
	*tso.Server
	n *atomic.Int64
}

func (o asked) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) ([]coordination.Hint, error) {
	o.n.Add(1)
	return o.Server.TakeHints(ctx, topics, most, wait)
}

// A client without a worker hints at what it has written, and again when it looks after 5 s.
// Another worker that hears the second hint leaves the cell to the one that heard the first.
func TestNobodyRunsWhatIsHintedAtAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testNobodyRunsWhatIsHintedAtAgain)
}

func testNobodyRunsWhatIsHintedAtAgain(t *testing.T) {
	const rows = 60
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	pt := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{table()}})
	e := &env{t, pt, ctx, pt.Client, byJournal}
	j, r := newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"), observers.Collapse(7*time.Second))
	var workers []*observers.Worker
	var questions atomic.Int64
	for i := range 3 {
		c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = asked{e.Oracle.(*tso.Server), &questions} }))
		w, _ := e.start(c, r, observers.Config{Grace: time.Minute, Concurrency: rows, DisableCollection: true})
		e.idle(w)
		e.until("it waits for hints", func() bool { return questions.Load() > int64(i) })
		workers = append(workers, w)
	}
	writer := e.NewClient(e.direct())
	for i := range rows {
		e.set(writer, fmt.Sprint(i), "in", "x")
	}
	e.until("the writer has looked", func() bool { return writer.Engine().Store.Count.RowsLooked.Load() >= rows })
	e.await(j, "o", rows)
	e.until("nothing is pending", func() bool { return len(e.pending()) == 0 })
	for _, w := range workers {
		if s := w.Stats(); s.Acknowledged+s.Conflicts != 0 || s.Attempts != s.Hinted {
			t.Errorf("%d attempts for %d hints, %d jobs for nothing, %d conflicts", s.Attempts, s.Hinted, s.Acknowledged, s.Conflicts)
		}
	}
	if n := j.count("o"); n != rows {
		t.Errorf("%d runs for %d cells", n, rows)
	}
}

// A cell that stands for longer than any worker should have it is run for by whoever comes across
// it, although the oracle's clock stands still and its writer lives.
func TestOverdueIsRunForByAnyWorker(t *testing.T) {
	t.Parallel()
	eachFinding(t, "", func(t *testing.T, by finding) {
		e, j, r := newEnvOf(t, by, []percolator.Table{table()}), newJournal(), observers.NewRegistry()
		r.Observe("o", "t", "in", j.observer("o"))
		e.set(e.client, "r", "in", "x")
		w, _ := e.start(e.NewClient(), r, observers.Config{ScanInterval: time.Millisecond, Grace: 100 * time.Millisecond, DisableCollection: true})
		e.await(j, "o", 1)
		e.idle(w)
	})
}

// What a client has left behind whose session has ended is lost for certain, and nobody waits for
// it (docs/internals/ARCHITECTURE.md), whichever worker owns it.
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
			coordination.Sessions
			coordination.Hints
			coordination.RowLocks
		}{o, o.(coordination.Sessions), l.Oracle.(coordination.Hints), l.Oracle.(coordination.RowLocks)}
	})
}
