package exportqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The worker dies after the delivery, when it begins to delete: the next one delivers the same
// entries once more, with the same numbers.
func TestCrashBetweenDeliveryAndDeletion(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	e.add("k", "1")
	e.add("k", "2")
	c := e.crashAt(0)
	var to receiver
	w, stop := e.export(c, &to, observers.Config{})
	e.until("the worker dies", e.FaultsOf(c).Crashed)
	stop()
	if w.Stats().Runs != 0 {
		t.Fatalf("stats %+v", w.Stats())
	}
	w, _ = e.export(e.client, &to, observers.Config{})
	e.idle(w)
	got := to.entries()
	if v := values(got); len(v) < 4 || !slices.Equal(v[:2], []string{"k=1", "k=2"}) || !slices.Equal(v[len(v)-2:], []string{"k=1", "k=2"}) {
		t.Fatalf("delivered %v", v)
	}
	if last := len(got) - 1; got[0].StartTS != got[last-1].StartTS || got[1].StartTS != got[last].StartTS {
		t.Errorf("the numbers changed: %v", got)
	}
	if left := e.pending(); len(left) != 0 {
		t.Errorf("left in the queue: %v", left)
	}
}

// The worker dies at each of its requests in turn, another one goes on: every entry is delivered,
// for the first time in order. Over hours, the runs also move the position.
func TestCrashOfAnExporter(t *testing.T) {
	t.Parallel()
	t.Run("over seconds", func(t *testing.T) { t.Parallel(); crashExporter(t, 2*time.Second) })
	t.Run("over hours", func(t *testing.T) { t.Parallel(); crashExporter(t, 20*time.Minute) })
}

func crashExporter(t *testing.T, between time.Duration) {
	e := newEnv(t, func(c *exportqueue.Config) { c.MaxEntries = 2 })
	var to receiver
	var want []string
	for n := 0; ; n++ {
		for range 3 {
			v := fmt.Sprint(len(want))
			want = append(want, "k="+v)
			e.add("k", v)
			e.Clock.Advance(between)
		}
		c := e.crashAt(n)
		w, stop := e.export(c, &to, observers.Config{})
		e.until("the worker dies, or is done", func() bool { return e.FaultsOf(c).Crashed() || e.clean() })
		stop()
		e.Clock.Advance(time.Minute) // its locks are dead
		survivor, stop := e.export(e.NewClient(), &to, observers.Config{})
		e.idle(survivor)
		stop()
		var first []string
		for _, v := range values(to.entries()) {
			if !slices.Contains(first, v) {
				first = append(first, v)
			}
		}
		if left := e.pending(); !slices.Equal(first, want) || len(left) != 0 {
			t.Fatalf("death at request %d: first deliveries %v, want %v; left %v", n, first, want, left)
		}
		if !e.FaultsOf(c).Crashed() {
			if n < 4 {
				t.Errorf("the exporter survived after %d requests, stats %+v", n, w.Stats())
			}
			return
		}
	}
}

// The writer dies at each of its requests in turn: its entry is delivered if and only if what it
// wrote beside it is there.
func TestCrashOfAWriter(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	var to receiver
	w, _ := e.export(e.client, &to, observers.Config{})
	outcomes := map[bool]int{}
	for n, crashed := 0, true; crashed; n++ {
		c, row := e.crashAt(n), fmt.Sprint(n)
		tx := e.begin(c)
		if err := tx.Set(cell(row), nil); err != nil {
			t.Fatal(err)
		}
		e.queueIn(tx, row, "v")
		_, _ = tx.Commit(e.ctx)
		_ = c.Flush(e.ctx)
		crashed = e.FaultsOf(c).Crashed()
		e.Clock.Advance(time.Minute)
		e.idle(w)
		s, err := e.client.Snapshot(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.GetMulti(e.ctx, cell(row))
		if err != nil {
			t.Fatal(err)
		}
		written, sent := found[0] != nil, slices.Contains(values(to.entries()), row+"=v")
		if written != sent {
			t.Errorf("death at request %d: written %v, delivered %v", n, written, sent)
		}
		outcomes[sent]++
	}
	if outcomes[true] < 1 || outcomes[false] < 3 {
		t.Errorf("delivered: %v", outcomes)
	}
}

// A writer that is stopped between prewrite and commit is waited for: what began after it is
// delivered after it.
func TestALockHoldsUpWhatCameLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	c, hold := e.NewClient(), percolatortest.NewHold()
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") {
			return hold
		}
		return percolatortest.Pass
	})
	slow := e.begin(c)
	e.queueIn(slow, "k", "slow")
	done := make(chan error, 1)
	go func() { _, err := slow.Commit(e.ctx); done <- err }()
	hold.Wait(t, 1)
	e.add("k", "quick")
	var to receiver
	w, _ := e.export(e.client, &to, observers.Config{})
	e.until("a run is in flight", func() bool { return w.Stats().Attempts > 0 })
	hold.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	if v := values(to.entries()); !slices.Equal(v, []string{"k=slow", "k=quick"}) {
		t.Errorf("delivered %v", v)
	}
}
