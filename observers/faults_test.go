package observers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

func TestUnknownOutcomeIsNoSecondRun(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testUnknownOutcomeIsNoSecondRun)
}

func testUnknownOutcomeIsNoSecondRun(t *testing.T) {
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"), observers.Timeout(time.Second))
	// The worker's first commit is applied; then its client gets no answers until the run times
	// out.
	c := e.NewClient()
	var deaf atomic.Bool
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") && deaf.CompareAndSwap(false, true):
			return percolatortest.LoseAnswer
		case deaf.Load() && r.Method == percolatortest.ReadRows && r.Row == "r":
			if j.count("deaf") == 0 {
				return percolatortest.LoseRequest
			}
		}
		return percolatortest.Pass
	})
	w, _ := e.start(c, r, observers.Config{MaxAttempts: 1})
	e.set(e.client, "r", "in", "1")
	e.until("the commit's outcome is unknown", func() bool { return w.Stats().Errors > 0 })
	j.add("deaf", observers.Change{}) // it hears again
	e.idle(w)
	if s := w.Stats(); j.count("o") != 1 || s.Acknowledged == 0 || s.Parked != 0 || len(e.pending()) != 0 {
		t.Fatalf("%d calls, stats %+v, pending %v", j.count("o"), s, e.pending())
	}
}

func TestOutageParksNothing(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	c := e.NewClient()
	var down atomic.Bool
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle && down.Load() {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	down.Store(true)
	for i := range 20 {
		e.set(e.client, fmt.Sprint(i), "in", "1")
	}
	w, _ := e.start(c, r, observers.Config{MaxAttempts: 1, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	e.until("many attempts fail", func() bool { return w.Stats().Errors >= 60 })
	down.Store(false)
	e.idle(w)
	if s := w.Stats(); s.Runs != 20 || s.Parked != 0 || j.count("o") != 20 {
		t.Fatalf("stats %+v", s)
	}
}

// TestOutageByJournalParksNothing: the oracle goes while the worker has a full queue.
func TestOutageByJournalParksNothing(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	c := e.NewClient()
	var down atomic.Bool
	first := make(chan struct{})
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		<-first
		j.add("o", ch)
		return nil
	})
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle && down.Load() {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	w, _ := e.start(c, r, observers.Config{MaxAttempts: 1, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	e.idle(w)
	for i := range 20 {
		e.set(c, fmt.Sprint(i), "in", "1")
	}
	down.Store(true)
	close(first)
	e.until("many attempts fail", func() bool { return w.Stats().Errors >= 60 })
	down.Store(false)
	e.idle(w)
	if s := w.Stats(); s.Runs != 20 || s.Parked != 0 {
		t.Fatalf("stats %+v", s)
	}
}

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

func TestLogsNameNoRows(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Cell.Row == "secret-row-1" {
			panic(ch.Cell.Row + string(ch.Value))
		}
		return errors.New(ch.Cell.Row + string(ch.Value))
	})
	var quiet, loud logBuffer
	w, stop := e.start(e.client, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&quiet, nil))})
	e.set(e.client, "secret-row-1", "in", "secret-value")
	e.set(e.client, "secret-row-2", "in", "secret-value")
	e.idle(w)
	text := quiet.String()
	if strings.Contains(text, "secret") || !strings.Contains(text, "observer=o") || !strings.Contains(text, "parked") || !strings.Contains(text, "panic") {
		t.Fatalf("the log says:\n%s", text)
	}
	stop() // it shares the client that retries, and would be told
	e.retryParked()
	w, _ = e.start(e.NewClient(), r, observers.Config{MaxAttempts: 1, Logger: slog.New(slog.NewTextHandler(&loud, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	e.idle(w)
	if !strings.Contains(loud.String(), "secret-row-1") {
		t.Fatal("the debug log does not tell which row failed")
	}
}

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestCollapseWaits(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"), observers.Collapse(time.Hour))
	w, stop := e.start(e.client, r, observers.Config{})
	e.searched(w, 0)
	for i := range 100 {
		e.set(e.client, "r", "in", fmt.Sprint(i))
	}
	if s := w.Stats(); s.Queued != 1 || s.Attempts != 0 || s.Dispatched+s.Found < 100 {
		t.Fatalf("stats %+v", s)
	}
	stop() // it loses nothing
	if len(e.pending()) != 1 {
		t.Fatal("the notification is gone")
	}
}

func TestRunEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	w, err := observers.NewWorker(e.client, r, observers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestWaitIdleOfAWorkerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	observer, err := observers.NewWorker(e.client, r, observers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.idle(observer) // nothing to do
	e.set(e.client, "r", "in", "1")
	waited := make(chan error, 1)
	go func() { waited <- observer.WaitIdle(e.ctx) }()
	e.reads(e.client, 3)
	select {
	case err := <-waited:
		t.Fatalf("WaitIdle returned %v with a notification left", err)
	default:
	}
	e.start(e.NewClient(), r, observers.Config{})
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if j.count("o") != 1 {
		t.Fatalf("%d calls", j.count("o"))
	}
}

func TestNotificationWithoutWorkIsErased(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	r.Observe("p", "t", "in", j.observer("p"))
	ts := e.set(e.client, "r", "in", "1")
	w, stop := e.start(e.client, r, observers.Config{})
	e.idle(w)
	plant := func() {
		t.Helper()
		mut := bigtable.NewMutation()
		mut.Set("notify", "in", bigtable.Timestamp(ts*1000), nil)
		if err := e.Store().Open("t").Apply(e.ctx, "r", mut); err != nil {
			t.Fatal(err)
		}
	}
	plant()
	e.idle(w) // this worker knows what it has done
	if len(e.pending()) != 0 {
		t.Fatal("still notified")
	}
	stop()
	plant()
	w, _ = e.start(e.NewClient(), r, observers.Config{})
	e.idle(w) // and another one finds the acknowledgments
	if s := w.Stats(); len(e.pending()) != 0 || s.Acknowledged != 1 || j.count("o") != 1 || j.count("p") != 1 {
		t.Fatalf("pending %v, stats %+v", e.pending(), s)
	}
}

func TestWeakNotificationThatAnotherWorkerHasDealtWith(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"w"}}), newJournal(), observers.NewRegistry()
	release := make(chan struct{})
	r.Observe("o", "t", "w", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add(ch.Cell.Row, ch)
		<-release
		return nil
	})
	notify := func(row string) tso.Timestamp {
		t.Helper()
		ts, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Notify(cell(row, "w")) })
		if err != nil {
			t.Fatal(err)
		}
		return ts
	}
	w, _ := e.start(e.NewClient(), r, observers.Config{Concurrency: 1, ScanInterval: 10 * time.Millisecond})
	notify("first")
	e.await(j, "first", 1)
	ts := notify("second")
	e.until("the scan finds it", func() bool { return w.Stats().Found == 2 })
	if err := e.client.Engine().Commits.ClearNotification(e.ctx, cell("second", "w"), ts); err != nil { // as another worker does
		t.Fatal(err)
	}
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	close(release)
	e.idle(w)
	if j.count("second") != 0 || w.Stats().Acknowledged == 0 { // more than once if a page that was read before comes late
		t.Fatalf("ran %d times, stats %+v", j.count("second"), w.Stats())
	}
}

func TestCorruptCellsHideNothing(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	mut := bigtable.NewMutation()
	mut.Set("lock", "x", bigtable.Timestamp(1000), []byte("no lock"))
	if err := e.Store().Open("t").Apply(e.ctx, "r", mut); err != nil {
		t.Fatal(err)
	}
	e.set(e.client, "r", "in", "1")
	e.set(e.client, "s", "in", "1")
	w, _ := e.start(e.NewClient(), r, observers.Config{})
	e.idle(w)
	e.until("a scanner meets it", func() bool { return w.Stats().Corrupt > 0 })
	if j.count("o") != 2 {
		t.Fatalf("%d calls", j.count("o"))
	}
}
