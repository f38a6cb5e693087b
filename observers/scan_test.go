package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func TestScannersTeleport(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testScannersTeleport)
}

func testScannersTeleport(t *testing.T) {
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add(ch.Cell.Row, ch)
		return nil
	})
	for _, row := range []string{"a", "m", "z"} {
		e.set(e.client, row, "in", "1")
	}
	w, err := observers.NewWorker(e.client, r, observers.Config{ScanInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	unlock, _ := w.LockRow("t", "m")
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	e.await(j, "a", 1)
	e.await(j, "z", 1) // from another place
	if j.count("m") != 0 || w.Stats().Teleports == 0 {
		t.Fatalf("m was run %d times; %d teleports", j.count("m"), w.Stats().Teleports)
	}
	unlock()
	e.await(j, "m", 1)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, ok := w.LockRow("t", "m"); !ok {
		t.Fatal("a scanner has left its lock behind")
	}
}

// TestWorkInASparseTable: a request passes over a tenth of the table, and there is work in three
// rows of it. The scan finds all of it, and those who wait until nothing is left do not wait for
// ever.
func TestWorkInASparseTable(t *testing.T) {
	t.Parallel()
	const rows = 600
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{table()}, DisableJournal: true}, fixture.CutReads(rows/10))
	p.Clock.Stop()
	e, j, r := &env{t, p, ctx, p.Client, byScans}, newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	fixture.Fill(t, ctx, p, "t", rows)
	strand(e)
	for _, i := range []int{1, rows - 1} {
		e.set(e.client, fixture.Key(i), "in", "1")
	}
	fixture.Must(t, e.client.Flush(ctx))

	left, err := observers.Remains(ctx, e.client)
	if err != nil || left != (observers.Remaining{Notifications: 2, Locks: 1}) {
		t.Errorf("%v, %v", left, err)
	}
	e.Clock.Advance(time.Minute) // the lock is dead
	w, _ := e.start(p.NewClient(), r, observers.Config{})
	fixture.Must(t, observers.WaitIdle(ctx, p.NewClient(), nil)) // the scan finds it
	e.idle(w)
	if n := j.count("o"); n != 3 {
		t.Errorf("idle after %d runs, want 3", n)
	}
}

// strand commits a transaction of a client that dies at the commit point: row "z" keeps its lock
// and lacks its notification.
func strand(e *env) {
	e.Helper()
	crashing := e.NewClient(percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	}))
	_, err := crashing.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		if err := tx.Set(cell("a", "primary"), []byte("1")); err != nil {
			return err
		}
		return tx.Set(cell("z", "in"), []byte("1"))
	})
	if err != nil {
		e.Fatal(err)
	}
	if err := crashing.Flush(e.ctx); err != nil {
		e.Fatal(err)
	}
	rows := 0
	for p, err := range e.client.Engine().Reads.ScanPending(e.ctx, "t", percolator.All()) {
		if err != nil {
			e.Fatal(err)
		}
		if rows++; p.Row != "z" || len(p.Notified) != 0 || len(p.Locks) != 1 || !p.Locks[0].Observed {
			e.Fatalf("row %q has %d notifications and the locks %+v", p.Row, len(p.Notified), p.Locks)
		}
	}
	if rows != 1 {
		e.Fatalf("%d rows are locked", rows)
	}
}

func TestCrashAfterTheCommitPointStillNotifies(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	strand(e)
	w, _ := e.start(e.client, r, observers.Config{ScanInterval: 10 * time.Millisecond})
	// The lock is alive by oracle time, so the scan leaves it alone.
	e.searched(w, 4)
	if n := j.count("o"); n != 0 {
		t.Fatalf("called %d times", n)
	}
	e.Clock.Advance(time.Minute)
	e.await(j, "o", 1) // nobody has read the row
	e.idle(w)
	if s := w.Stats(); s.LocksResolved != 1 || s.Runs != 1 || len(e.pending()) != 0 {
		t.Fatalf("stats %+v, pending %v", s, e.pending())
	}
}

func TestWaitIdleWaitsForStrandedLocks(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	strand(e)
	w, _ := e.start(e.client, r, observers.Config{ScanInterval: time.Hour})
	early, cancel := context.WithCancel(e.ctx)
	waited := make(chan error, 1)
	go func() { waited <- w.WaitIdle(early) }()
	e.reads(e.client, 10) // several sweeps
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Fatalf("WaitIdle with a transaction that may notify: %v", err)
	}
	e.Clock.Advance(time.Minute)
	e.idle(w) // resolves it without the scanners
	if j.count("o") != 1 {
		t.Fatalf("called %d times", j.count("o"))
	}
}
