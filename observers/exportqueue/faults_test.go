package exportqueue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
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

// The worker dies at each of its writes in turn, another one goes on: every entry is delivered,
// for the first time in order. Over hours, the runs also move the position.
func TestCrashOfAnExporter(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	t.Run("over seconds", func(t *testing.T) { t.Parallel(); crashExporter(t, 2*time.Second) })
	t.Run("over hours", func(t *testing.T) { t.Parallel(); crashExporter(t, 20*time.Minute) })
}

func crashExporter(t *testing.T, between time.Duration) {
	e := newEnv(t, func(c *exportqueue.Config) { c.MaxEntries = 2 })
	var to receiver
	var want []string
	e.DieAtEach(func(ctx context.Context, _ int, c *percolator.Client) error {
		for range 3 {
			v := fmt.Sprint(len(want))
			want = append(want, "k="+v)
			e.add("k", v)
			e.Clock.Advance(between)
		}
		_, stop := e.export(c, &to, observers.Config{})
		e.until("the worker dies, or is done", func() bool { return ctx.Err() != nil || e.clean() })
		stop()
		return nil
	}, func(_ context.Context, _ int, c *percolator.Client) error {
		survivor, stop := e.export(c, &to, observers.Config{})
		e.idle(survivor)
		stop()
		var first []string
		for _, v := range values(to.entries()) {
			if !slices.Contains(first, v) {
				first = append(first, v)
			}
		}
		if left := e.pending(); !slices.Equal(first, want) || len(left) != 0 {
			return fmt.Errorf("first deliveries %v, want %v; left %v", first, want, left)
		}
		return nil
	})
}

// The writer dies at each of its writes in turn: its entry is delivered if and only if what it
// wrote beside it is there.
func TestCrashOfAWriter(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	var to receiver
	w, _ := e.export(e.client, &to, observers.Config{})
	outcomes := map[bool]int{}
	e.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
		_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			row := fmt.Sprint(run)
			e.queueIn(tx, row, "v")
			return tx.Set(cell(row), nil)
		})
		return err
	}, func(ctx context.Context, run int, c *percolator.Client) error {
		e.idle(w)
		return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			row := fmt.Sprint(run)
			found, err := s.GetMulti(ctx, cell(row))
			written, sent := err == nil && found[0] != nil, slices.Contains(values(to.entries()), row+"=v")
			if written != sent {
				t.Errorf("written %v, delivered %v", written, sent)
			}
			outcomes[sent]++
			return err
		})
	})
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
