package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

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
