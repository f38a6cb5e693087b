package tso

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// witness checks I1 for all callers of a test: what a call returns is greater than
// what any call returned that had finished when it began, and nothing is returned twice.
// A part of the calls is kept as a history for porcupine. A history of which calls are
// left out is in order if the whole is, so that nothing is accused wrongly.
type witness struct {
	start   time.Time
	highest atomic.Int64 // of the calls that have finished
	done    atomic.Int64 // how many have

	// part is the part of the history that calls go to which begin now.
	part atomic.Int64

	mu      sync.Mutex
	callers []*caller
}

func newWitness() *witness { return &witness{start: time.Now()} }

// caller is one sequence of calls, made by one goroutine.
type caller struct {
	*witness
	id    int
	gotOn atomic.Int64 // calls that have brought a timestamp

	taken []Timestamp
	kept  []keptCall
}

type keptCall struct {
	part int64
	porcupine.Operation
}

func (w *witness) caller() *caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &caller{witness: w, id: len(w.callers)}
	w.callers = append(w.callers, c)
	return c
}

// errDisorder is I1 broken.
var errDisorder = errors.New("I1 is broken")

// call makes one call, and keeps it in the history if keep is set. It returns the
// call's error, or errDisorder.
func (c *caller) call(keep bool, next func() (Timestamp, error)) error {
	part := c.part.Load()
	floor := c.highest.Load()
	called := time.Since(c.start)
	ts, err := next()
	returned := time.Since(c.start)
	if err != nil {
		return err // no timestamp: nothing to be in order
	}
	for highest := c.highest.Load(); int64(ts) > highest && !c.highest.CompareAndSwap(highest, int64(ts)); {
		highest = c.highest.Load()
	}
	c.taken = append(c.taken, ts)
	c.done.Add(1)
	c.gotOn.Add(1)
	if keep {
		c.kept = append(c.kept, keptCall{part, porcupine.Operation{ClientId: c.id, Call: int64(called), Output: ts, Return: int64(returned)}})
	}
	if int64(ts) <= floor {
		return fmt.Errorf("%w: caller %d got %d, %d had been returned before it asked", errDisorder, c.id, ts, floor)
	}
	return nil
}

// calls is how many calls have brought a timestamp.
func (w *witness) calls() int64 { return w.done.Load() }

// greatest is the greatest timestamp that a call has returned.
func (w *witness) greatest() Timestamp { return Timestamp(w.highest.Load()) }

// twice returns the timestamps that were returned more than once. No calls are made any
// more.
func (w *witness) twice() (twice []Timestamp) {
	all := make([]Timestamp, 0, w.calls())
	for _, c := range w.callers {
		all = append(all, c.taken...)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			twice = append(twice, all[i])
		}
	}
	return twice
}

// monotone is the specification: every call returns more than the one before.
var monotone = porcupine.Model{
	Init: func() any { return Timestamp(0) },
	Step: func(state, _, output any) (bool, any) { return output.(Timestamp) > state.(Timestamp), output },
}

// histories returns what was kept, by part.
func (w *witness) histories() map[int64][]porcupine.Operation {
	parts := map[int64][]porcupine.Operation{}
	for _, c := range w.callers {
		for _, k := range c.kept {
			parts[k.part] = append(parts[k.part], k.Operation)
		}
	}
	return parts
}

// porcupineLimit is more than a part of a history ever takes.
const porcupineLimit = 20 * time.Second

// check looks at all calls, which have ended.
func (w *witness) check(t *testing.T) {
	t.Helper()
	if twice := w.twice(); len(twice) > 0 {
		t.Errorf("%v: %d timestamps were returned more than once, the first is %d", errDisorder, len(twice), twice[0])
	}
	started, looked := time.Now(), 0
	for part, history := range w.histories() {
		looked += len(history)
		if result := porcupine.CheckOperationsTimeout(monotone, history, porcupineLimit); result != porcupine.Ok {
			t.Errorf("%v: part %d of the history, %d calls, is %v, not linearizable", errDisorder, part, len(history), result)
		}
	}
	t.Logf("%d calls in order; porcupine looked at %d of them for %v", w.calls(), looked, time.Since(started).Round(time.Millisecond))
}

// The checks have to be able to fail.
func TestWitnessNoticesDisorder(t *testing.T) {
	t.Parallel()
	op := func(caller int, call, ret int64, ts Timestamp) porcupine.Operation {
		return porcupine.Operation{ClientId: caller, Call: call, Return: ret, Output: ts}
	}
	if !porcupine.CheckOperations(monotone, []porcupine.Operation{op(0, 0, 10, 5), op(1, 1, 9, 4), op(0, 11, 12, 6)}) {
		t.Error("a history in order is refused")
	}
	if porcupine.CheckOperations(monotone, []porcupine.Operation{op(0, 0, 10, 5), op(1, 11, 12, 4)}) {
		t.Error("a history out of order is accepted")
	}
	answer := func(ts Timestamp) func() (Timestamp, error) {
		return func() (Timestamp, error) { return ts, nil }
	}
	w := newWitness()
	a, b := w.caller(), w.caller()
	if err := a.call(true, answer(5)); err != nil {
		t.Error(err)
	}
	if err := b.call(true, answer(4)); !errors.Is(err, errDisorder) {
		t.Errorf("4 after 5: %v", err)
	}
	if err := b.call(true, answer(5)); !errors.Is(err, errDisorder) {
		t.Errorf("5 after 5: %v", err)
	}
	if twice := w.twice(); len(twice) != 1 || twice[0] != 5 {
		t.Errorf("returned twice: %v, want 5", twice)
	}
	if history := w.histories()[0]; len(history) != 3 || porcupine.CheckOperations(monotone, history) {
		t.Errorf("the history %v is accepted", history)
	}
}
