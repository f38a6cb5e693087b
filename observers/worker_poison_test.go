package observers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// poison is an observer that copies healthy rows and fails for others, in the way that the row's
// name begins with.
type poison struct {
	other *percolator.Client // of the writer with whom some rows conflict without end
	j     *journal

	// hang, if set, is what a row that hangs waits for, and not its context.
	hang func(ctx context.Context, ch observers.Change) error
}

var poisons = []string{"error", "panic", "hang", "conflict"}

func isPoison(row string) bool { return !strings.HasPrefix(row, "healthy") }

func (p *poison) observe(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	kind, _, _ := strings.Cut(ch.Cell.Row, "-")
	p.j.add(kind, ch)
	switch kind {
	case "error":
		return errors.New("poison")
	case "panic":
		panic("poison")
	case "hang":
		if p.hang != nil {
			return p.hang(ctx, ch)
		}
		<-ctx.Done()
		return ctx.Err()
	case "conflict": // somebody else is always faster
		rival := cell("rival-of-"+ch.Cell.Row, "n")
		if _, err := p.other.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(rival, []byte("x")) }); err != nil {
			return err
		}
		return tx.Set(rival, []byte("y"))
	}
	return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
}

// inColumn is where the kind of row is written. Rows that hang are in a column of their own, whose
// observer has another timeout.
func inColumn(row string) percolator.Cell {
	if strings.HasPrefix(row, "hang") {
		return cell(row, "slow")
	}
	return cell(row, "in")
}

// poisonTable has both columns.
func poisonTable() percolator.Table {
	return percolator.Table{Name: "t", Observed: []string{"in", "slow"}}
}

// poisoned writes healthy rows and, before them, so many of each kind of poison.
func (e *env) poisoned(healthy, each int, kinds ...string) {
	e.Helper()
	var rows []string
	for _, kind := range kinds {
		for i := range each {
			rows = append(rows, fmt.Sprintf("%s-%d", kind, i))
		}
	}
	for i := range healthy {
		rows = append(rows, fmt.Sprintf("healthy-%d", i))
	}
	var writers sync.WaitGroup
	work := make(chan string)
	for range 16 {
		writers.Go(func() {
			for row := range work {
				if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(inColumn(row), []byte("1")) }); err != nil {
					e.Error(err)
				}
			}
		})
	}
	for _, row := range rows {
		work <- row
	}
	close(work)
	writers.Wait()
	if err := e.client.Flush(e.ctx); err != nil {
		e.Fatal(err)
	}
}

// Errors, panics, hangs and endless conflicts end parked after exactly MaxAttempts attempts,
// WaitIdle does not wait for them, and the observer has run for every healthy row.
func TestEveryKindOfPoisonIsParked(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, poisonTable()), observers.NewRegistry()
	const healthy, each, attempts = 100, 3, 4
	p := &poison{other: e.NewClient(), j: newJournal()}
	r.Observe("o", "t", "in", p.observe)
	r.Observe("slow", "t", "slow", p.observe, observers.Timeout(100*time.Millisecond))
	e.poisoned(healthy, each, poisons...)
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: attempts, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	e.idle(w)
	for i := range healthy {
		if row := fmt.Sprintf("healthy-%d", i); e.get(row, "out") != "1" {
			t.Fatalf("%s was not run for", row)
		}
	}
	list := e.parked()
	for _, x := range list {
		if !isPoison(x.Cell.Row) || x.Attempts != attempts {
			t.Errorf("parked after %d attempts: %s", x.Attempts, x.Cell)
		}
	}
	if len(list) != each*len(poisons) {
		t.Errorf("%d cells are parked, want %d", len(list), each*len(poisons))
	}
	// A timeout may be over before the observer is called, which is no attempt; nothing else fails
	// before the call.
	for _, kind := range poisons {
		if n := p.j.count(kind); n != each*attempts {
			t.Errorf("%d calls for the rows of kind %q, want %d", n, kind, each*attempts)
		}
	}
	s := w.Stats()
	if s.Panics != each*attempts || s.Conflicts < each*attempts || s.Runs != healthy {
		t.Errorf("stats %+v", s)
	}
	e.searched(w, 4) // the scan lets them be
	if again := w.Stats(); again.Attempts != s.Attempts {
		t.Errorf("%d more attempts at what is parked", again.Attempts-s.Attempts)
	}
}

// Cells that have failed hold at most half of a worker's slots, however many they are and however
// long they take; the others have the other half.
func TestPoisonHoldsHalfOfThePlaces(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, poisonTable()), observers.NewRegistry()
	const healthy, hanging, slots = 300, 40, 8
	var now, most atomic.Int64
	p := &poison{j: newJournal(), hang: func(ctx context.Context, ch observers.Change) error {
		if ch.Attempt == 1 {
			return errors.New("poison")
		}
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	r.Observe("o", "t", "in", p.observe)
	r.Observe("slow", "t", "slow", p.observe, observers.Timeout(testTimeout))
	cfg := observers.Config{Concurrency: slots, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond, DrainTimeout: time.Millisecond}
	e.poisoned(0, hanging, "hang")
	w, _ := e.start(e.client, r, cfg)
	e.until("half of the slots are taken", func() bool { return now.Load() == slots/2 })
	e.poisoned(healthy, 0)
	e.await(p.j, "healthy", healthy)
	e.until("all of them have committed", func() bool { return w.Stats().Runs == healthy })
	if most.Load() != slots/2 || now.Load() != slots/2 {
		t.Errorf("%d hang, at most %d did; want %d", now.Load(), most.Load(), slots/2)
	}
	if n := p.j.count("hang"); n != hanging+slots/2 {
		t.Errorf("%d attempts at %d rows that hang from the second on", n, hanging)
	}
}

// While the observer runs for healthy rows, poisoned ones get few attempts: their pauses grow, each
// by itself.
func TestPoisonBacksOffRowByRow(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	e, r := newEnv(t, poisonTable()), observers.NewRegistry()
	const healthy, each = 300, 10
	p := &poison{other: e.NewClient(), j: newJournal()}
	r.Observe("o", "t", "in", p.observe)
	r.Observe("slow", "t", "slow", p.observe)
	e.poisoned(healthy, each, "error", "panic", "conflict")
	w, _ := e.start(e.client, r, observers.Config{MinBackoff: time.Minute})
	e.await(p.j, "healthy", healthy)
	e.until("all of them have committed", func() bool { return w.Stats().Runs == healthy })
	e.until("each has had its attempt", func() bool { return w.Stats().Attempts == healthy+3*each })
	// Writes to other cells do not bring a waiting cell back, and more of them do not either.
	e.poisoned(healthy, 0)
	e.await(p.j, "healthy", 2*healthy)
	for _, kind := range []string{"error", "panic", "conflict"} {
		if n := p.j.count(kind); n != each {
			t.Errorf("%d calls for %d rows of kind %q, whose first pause is not over", n, each, kind)
		}
	}
}

// The limit of an observer holds for attempts that fail, panic, time out or conflict.
func TestMaxConcurrentHoldsUnderPoison(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, poisonTable()), observers.NewRegistry()
	const healthy, each, limit, attempts = 60, 3, 2, 3
	p := &poison{other: e.NewClient(), j: newJournal()}
	most := map[string]*atomic.Int64{"in": {}, "slow": {}}
	for column, most := range most {
		var now atomic.Int64
		r.Observe(column, "t", column, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			return p.observe(ctx, tx, ch)
		}, observers.MaxConcurrent(limit), observers.Timeout(map[string]time.Duration{"in": testTimeout, "slow": 100 * time.Millisecond}[column]))
	}
	e.poisoned(healthy, each, poisons...)
	w, _ := e.start(e.client, r, observers.Config{Concurrency: 16, MaxAttempts: attempts, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	e.idle(w)
	if in, slow := most["in"].Load(), most["slow"].Load(); in > limit || slow > limit {
		t.Errorf("%d and %d at once, the limit is %d", in, slow, limit)
	}
	if n := len(e.parked()); n != each*len(poisons) || w.Stats().Runs != healthy {
		t.Errorf("%d runs, %d parked", w.Stats().Runs, n)
	}
}
