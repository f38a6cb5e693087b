package observers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
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
	var cutOff atomic.Bool
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") && cutOff.CompareAndSwap(false, true):
			return percolatortest.LoseAnswer
		case cutOff.Load() && r.Method == percolatortest.ReadRows && r.Row == "r":
			if j.count("reachable") == 0 {
				return percolatortest.LoseRequest
			}
		}
		return percolatortest.Pass
	})
	w, _ := e.start(c, r, observers.Config{MaxAttempts: 1})
	e.set(e.client, "r", "in", "1")
	e.until("the commit's outcome is unknown", func() bool { return w.Stats().Errors > 0 })
	j.add("reachable", observers.Change{}) // its client gets answers again
	e.idle(w)
	if s := w.Stats(); j.count("o") != 1 || s.Acknowledged == 0 || s.Parked != 0 || len(e.pending()) != 0 {
		t.Fatalf("%d calls, stats %+v, pending %v", j.count("o"), s, e.pending())
	}
}

// noTimestamp answers as a [tso.Client] does that has tried its servers for long enough.
var noTimestamp = percolatortest.Refuse(fmt.Errorf("tso: %w: no timestamp within 10s", tso.ErrUnavailable))

func TestOutageParksNothing(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	c := e.NewClient()
	var down atomic.Bool
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle && down.Load() {
			return noTimestamp
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
			return noTimestamp
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

// A store that answers no commit for as long as one waits for it parks nothing.
func TestUnansweredCommitsParkNothing(t *testing.T) {
	t.Parallel()
	held := func() percolatortest.Action { return percolatortest.NewHold() }
	broken := func() percolatortest.Action { return percolatortest.Refuse(status.Error(codes.Internal, "RST_STREAM")) }
	for name, of := range map[string]struct {
		answer func() percolatortest.Action
		asks   func(percolatortest.Request) bool
	}{
		"the journal": {held, func(r percolatortest.Request) bool {
			return r.Table == model.JournalTable && r.Method != percolatortest.ReadRows
		}},
		"the prewrite": {held, func(r percolatortest.Request) bool { return r.Sets("lock") }},
		"its stream":   {broken, func(r percolatortest.Request) bool { return r.Sets("lock") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testUnansweredCommitsParkNothing(t, of.answer(), of.asks) })
		})
	}
}

func testUnansweredCommitsParkNothing(t *testing.T, answer percolatortest.Action, asks func(percolatortest.Request) bool) {
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"), observers.Timeout(time.Hour))
	c := e.NewClient()
	faults := e.FaultsOf(c)
	down := func(r percolatortest.Request) percolatortest.Action {
		if asks(r) {
			return answer
		}
		return percolatortest.Pass
	}
	faults.Handle(down)
	faults.HandleJournal(down)
	e.set(e.client, "r", "in", "1")
	w, _ := e.start(c, r, observers.Config{MaxAttempts: 1})
	e.until("an attempt fails", func() bool { return w.Stats().Errors > 0 })
	faults.Handle(nil)
	faults.HandleJournal(nil)
	e.idle(w)
	if s := w.Stats(); s.Runs != 1 || s.Parked != 0 {
		t.Fatalf("%+v, %+v", s.ObserverStats, e.parked())
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
