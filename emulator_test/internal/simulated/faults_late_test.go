package simulated_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// A late request is applied long after its caller has given up, and never after its deadline.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.Late), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		later := 0
		for _, row := range numbered(60) {
			begun := time.Now()
			err := p.create(row)
			there := exists(t, c, row)
			if err == nil && !there {
				t.Errorf("%s is missing", row)
			}
			time.Sleep(time.Until(begun.Add(lifetime)))
			synctest.Wait()
			if !exists(t, c, row) {
				t.Errorf("%s is not there at its deadline", row)
			}
			if err != nil && !there {
				later++
			}
		}
		if later < 10 {
			t.Errorf("%d came late", later)
		}
		only(t, c, simulated.Late)
	})
}

// The store honours the deadline of a request, also of one that it gets late.
func TestDeadlinesAreHonoured(t *testing.T) {
	t.Parallel()
	cfg := simulated.Config{Seed: 3, Latency: simulated.Latency{Median: 10 * time.Millisecond}}
	cfg.Rates = simulated.Rates{simulated.Late: 0.4, simulated.Duplicate: 0.4, simulated.SlowDisk: 0.4, simulated.Abandoned: 0.5}
	simulate(t, cfg, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		for _, row := range numbered(200) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, _ = p.CheckAndMutate(ctx, "t", row, store.Anything(), nil, put("v"))
			<-ctx.Done()
			cancel()
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			before := exists(t, c, row)
			time.Sleep(time.Second)
			if exists(t, c, row) != before {
				t.Errorf("%s came after its deadline", row)
			}
		}
	})
}

// A duplicate of a conditional mutation judges the row anew.
func TestDuplicateJudgesTheRowAnew(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.Duplicate), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		for _, row := range numbered(60) {
			if err := p.toggle(row); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * lifetime)
		undone := 0
		for _, row := range numbered(60) {
			if !exists(t, c, row) {
				undone++
			}
		}
		if n := c.Faults()[simulated.Duplicate]; undone == 0 || undone == 60 || int64(undone) != n {
			t.Errorf("%d were undone by %d duplicates", undone, n)
		}
		only(t, c, simulated.Duplicate)
	})
}

// What is applied late is what was sent, whatever the caller does with it since.
func TestLateMutationsAreCopies(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{Seed: 1, Rates: simulated.Rates{simulated.Late: 1}}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		for _, row := range numbered(20) {
			ctx, cancel := context.WithTimeout(t.Context(), lifetime)
			value := []byte("sent")
			m := store.NewMutation(1)
			m.Put(layout.DataFamily, "c", 5, value)
			if _, err := p.CheckAndMutate(ctx, "t", row, store.Anything(), nil, m); err == nil {
				t.Error("no error")
			}
			copy(value, "else")
			cancel()
		}
		time.Sleep(2 * lifetime)
		n := 0
		if err := c.Visit("t", func(r layout.Row) bool {
			n++
			if string(r.Items[0].Value) != "sent" {
				t.Errorf("%q was stored", r.Items[0].Value)
			}
			return true
		}); err != nil || n != 20 {
			t.Error(n, err)
		}
	})
}

// A request that is under way when its caller leaves may be applied all the same.
func TestAbandonedRequests(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.Abandoned), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		for _, row := range numbered(60) {
			ctx, cancel := context.WithTimeout(t.Context(), lifetime)
			time.AfterFunc(time.Microsecond, cancel)
			if _, err := p.CheckAndMutate(ctx, "t", row, store.Anything(), nil, put("v")); code(err) != "Canceled" || exists(t, c, row) {
				t.Errorf("%s: %v", row, err)
			}
		}
		time.Sleep(2 * lifetime)
		n := 0
		for _, row := range numbered(60) {
			if exists(t, c, row) {
				n++
			}
		}
		if n == 0 || n == 60 || int64(n) != c.Faults()[simulated.Abandoned] {
			t.Errorf("%d of 60 arrived; %v", n, c.Faults())
		}
		only(t, c, simulated.Abandoned)
	})
}
