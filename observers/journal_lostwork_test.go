package observers_test

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// soon bounds how long an observer takes to run for what a dead client left behind. An idle machine
// takes at most 2 s.
const soon = 10 * time.Second

// lost is a table of clean rows on simulated disks, where a terabyte of others takes a minute to
// read, a worker, and a client that will be lost. All have sessions.
type lost struct {
	*env
	disks    *emulator.Disks
	sessions fixture.Registrar
	j        *journal
	registry *observers.Registry
	dying    *percolator.Client
	session  string
	workers  []*percolator.Client
}

func newLost(t *testing.T, clean int) *lost {
	disks := &emulator.Disks{Speed: 1 << 40 / 60, Clean: []emulator.Clean{{Table: "t", Bytes: 1 << 40}}}
	l := &lost{env: newEnvOf(t, byJournal, []percolator.Table{table()}, fixture.OnDisks(disks)), disks: disks, j: newJournal(), registry: observers.NewRegistry()}
	l.registry.Observe("o", "t", "in", l.j.observer("o"))
	fixture.FillLongAgo(t, l.ctx, l.Env, "t", clean)
	l.dying = l.client()
	l.session = l.dying.Engine().Locks.Sessions.Own()
	return l
}

// client is a client with a session, whose hints get lost.
func (l *lost) client() *percolator.Client {
	return l.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		o := l.sessions.Oracle(cfg.Oracle)
		cfg.Oracle = struct {
			tso.Oracle
			coordination.Sessions
			coordination.Hints
		}{o, o.(coordination.Sessions), new(quietHints)}
	}))
}

// work starts a worker, and waits until its first look is done.
func (l *lost) work() *observers.Worker {
	l.Helper()
	c := l.client()
	l.workers = append(l.workers, c)
	w, _ := l.start(c, l.registry, observers.Config{DisableCollection: true, Grace: time.Hour}) // none for what is lost
	l.idle(w)
	return w
}

// found waits until the observer has run for n rows, which a worker has to do soon after now, when
// the session ends, without having read a range of the table.
func (l *lost) found(n int) {
	l.Helper()
	passed, ended := l.disks.Passed("t"), time.Now()
	l.sessions.End(l.session)
	ctx, cancel := context.WithTimeout(l.ctx, soon)
	defer cancel()
	l.awaitWithin(ctx, l.j, "o", n)
	took := time.Since(ended)
	passed = l.disks.Passed("t") - passed
	l.Logf("run for all %d rows %v after the end of the session; %d bytes of the table read", n, took.Round(10*time.Millisecond), passed)
	if passed > 1<<30 {
		l.Errorf("%d bytes of the table read", passed)
	}
	for _, c := range l.workers {
		for _, r := range l.FaultsOf(c).Requests() {
			if r.Table == "t" && (r.Method == percolatortest.SampleRowKeys || r.Method == percolatortest.ReadRows && r.Rows == 0) {
				l.Errorf("a worker read a range of the table: %v", r)
			}
		}
	}
}

// set2 writes the observed column of some rows in one transaction.
func (l *lost) set2(c *percolator.Client, rows int) error {
	_, err := c.Update(l.ctx, func(_ context.Context, tx *percolator.Txn) error {
		if err := tx.Set(cell("primary", "plain"), []byte("1")); err != nil {
			return err
		}
		for i := range rows {
			if err := tx.Set(cell(fmt.Sprint("lost-", i), "in"), []byte("1")); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

var cleanRows = flag.Int("lost.clean", 5000, "how many clean rows a table has in which work is lost")

// A client dies between its commit point and phase two: nobody reads the rows, and the observer
// runs for them.
func TestLostBetweenCommitPointAndPhaseTwo(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLostBetweenCommitPointAndPhaseTwo)
}

func testLostBetweenCommitPointAndPhaseTwo(t *testing.T) {
	l := newLost(t, *cleanRows)
	l.work()
	l.FaultsOf(l.dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	if err := l.set2(l.dying, 20); err != nil {
		t.Fatal(err)
	}
	l.until("the death", func() bool { _ = l.dying.Flush(l.ctx); return l.FaultsOf(l.dying).Crashed() })
	l.found(20)
}

// A client writes, its hints are lost, and then it dies.
func TestLostHint(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLostHint)
}

func testLostHint(t *testing.T) {
	l := newLost(t, *cleanRows)
	l.work()
	if err := l.set2(l.dying, 20); err != nil {
		t.Fatal(err)
	}
	if err := l.dying.Flush(l.ctx); err != nil {
		t.Fatal(err)
	}
	l.FaultsOf(l.dying).Crash()
	l.found(20)
}

// A worker is killed with a full queue, which nobody else knows of.
func TestLostQueue(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testLostQueue)
}

func testLostQueue(t *testing.T) {
	const rows = 500
	l := newLost(t, *cleanRows)
	l.work()
	r := observers.NewRegistry()
	hold := make(chan struct{})
	r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, _ observers.Change) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	w, stop := l.start(l.dying, r, observers.Config{Concurrency: 4, DisableCollection: true, DrainTimeout: time.Millisecond})
	l.idle(w)
	for from := 0; from < rows; from += 100 {
		_, err := l.dying.Update(l.ctx, func(_ context.Context, tx *percolator.Txn) error {
			for i := from; i < from+100; i++ {
				if err := tx.Set(cell(fmt.Sprint("lost-", i), "in"), []byte("1")); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.until("the queue is full", func() bool { s := w.Stats(); return s.Queued+s.Running == rows })
	l.FaultsOf(l.dying).Crash()
	close(hold)
	stop()
	if n := l.j.count("o"); n != 0 {
		t.Errorf("%d runs before the session ended", n)
	}
	l.found(rows)
}

// What a worker's queue had no room for is found again as soon as there is some, not when its
// client looks next.
func TestDroppedNotificationsAreFoundAgain(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	release := make(chan struct{})
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		<-release
		j.add("o", ch)
		return nil
	})
	w, _ := e.start(e.client, r, observers.Config{QueueLength: 4, Concurrency: 2, DisableCollection: true})
	e.idle(w)
	for i := range 200 {
		e.set(e.client, fmt.Sprint(i), "in", "1")
	}
	close(release)
	e.await(j, "o", 200)
	if s := w.Stats(); s.Dropped == 0 || s.Found == 0 {
		t.Errorf("stats %+v", s)
	}
}

// A worker follows the journal: while the instance has none it scans, and when it has one it does
// not.
func TestAWorkerFollowsTheJournal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	schema := func(disabled bool) *percolator.Schema {
		return &percolator.Schema{
			Tables: []percolator.Table{table()}, DisableJournal: disabled,
			Timing: percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second},
		}
	}
	pt := percolatortest.New(t, schema(false))
	e := &env{t, pt, ctx, pt.Client, byJournal}
	j, r := newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	c := e.NewClient()
	w, _ := e.start(c, r, observers.Config{ScanInterval: time.Millisecond, DisableCollection: true})
	e.set(c, "a", "in", "1")
	e.await(j, "o", 1)
	if n := w.Stats().Searches; n != 0 {
		t.Errorf("%d searches beside a journal", n)
	}
	if err := percolator.CreateSchema(ctx, e.Project, e.Instance, schema(true), e.Options()...); err != nil {
		t.Fatal(err)
	}
	e.until("scanners search", func() bool { return w.Stats().Searches > 2 })
	e.set(e.client, "b", "in", "1")
	e.await(j, "o", 2)
}

// A row of the journal is not answered for seconds, so its entry is appended to another stream; the
// client dies after its commit point, and the row arrives after all. The observer runs, once.
func TestLostWithTwoCopiesOfItsEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLostWithTwoCopiesOfItsEntry)
}

func testLostWithTwoCopiesOfItsEntry(t *testing.T) {
	l := newLost(t, 100)
	l.work()
	late := percolatortest.NewHold()
	var appends atomic.Int64
	l.FaultsOf(l.dying).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if len(r.Row) != 25 { // no row of a stream with entries
			return percolatortest.Pass
		}
		if appends.Add(1) == 1 {
			return late
		}
		return percolatortest.Pass
	})
	l.FaultsOf(l.dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	if err := l.set2(l.dying, 20); err != nil {
		t.Fatal(err)
	}
	if appends.Load() < 2 {
		t.Fatalf("%d appends", appends.Load())
	}
	l.until("the death", func() bool { _ = l.dying.Flush(l.ctx); return l.FaultsOf(l.dying).Crashed() })
	late.Release()
	l.found(20)
	if n := l.j.count("o"); n != 20 {
		t.Errorf("%d runs for 20 rows", n)
	}
}
