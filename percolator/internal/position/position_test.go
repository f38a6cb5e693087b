package position_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator/internal/position"
)

// place is a position of a test.
type place struct {
	Seq   int64
	Owner string
	At    int
}

// fault is what becomes of a request.
type fault int

const (
	answered   fault = iota
	lostAnswer       // it is applied, and the answer is lost
	lost             // it is not applied
	late             // it has no answer, and is applied when all is done
	faults
)

var errNoAnswer = errors.New("no answer")

// cell is a stored cell whose requests meet one fault after the other, and then none.
type cell struct {
	value  []byte
	plan   []fault
	delays []func()
	sent   int
}

func (c *cell) next() (f fault) {
	c.sent++
	if len(c.plan) > 0 {
		f, c.plan = c.plan[0], c.plan[1:]
	}
	return f
}

func (c *cell) Read(context.Context) ([]byte, error) {
	if c.next() != answered {
		return nil, errNoAnswer
	}
	return c.value, nil
}

func (c *cell) Replace(_ context.Context, former, next []byte) (done bool, err error) {
	apply := func() bool {
		if !bytes.Equal(c.value, former) {
			return false
		}
		c.value = next
		return true
	}
	switch c.next() {
	case answered:
		return apply(), nil
	case lostAnswer:
		apply()
	case late:
		c.delays = append(c.delays, func() { apply() })
	}
	return false, errNoAnswer
}

// atOnce repeats what has failed without a pause.
func atOnce(ctx context.Context, f func(context.Context) error) error {
	for {
		if err := f(ctx); !errors.Is(err, errNoAnswer) {
			return err
		}
	}
}

func once(ctx context.Context, f func(context.Context) error) error { return f(ctx) }

func of(c *cell, try func(context.Context, func(context.Context) error) error) *position.Position[place] {
	return &position.Position[place]{
		Cell: c, Seq: func(p *place) *int64 { return &p.Seq }, Try: try,
		Encode: func(p place) []byte {
			return fmt.Appendf(nil, `{"Seq": %d, "Owner": %q, "At": %d}`, p.Seq, p.Owner, p.At)
		},
		Decode: func(b []byte) (p place, err error) { return p, json.Unmarshal(b, &p) },
	}
}

var errTaken = errors.New("taken over")

func ownedBy(owner string) func(place, bool) (bool, error) {
	return func(now place, there bool) (bool, error) {
		if there && now.Owner != owner {
			return false, errTaken
		}
		return false, nil
	}
}

func (c *cell) at(t *testing.T) (p place) {
	t.Helper()
	if err := json.Unmarshal(c.value, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// eachPlan calls f with every series of so many faults.
func eachPlan(length int, f func(plan []fault)) {
	for n := range pow(int(faults), length) {
		plan := make([]fault, length)
		for i := range plan {
			plan[i], n = fault(n%int(faults)), n/int(faults)
		}
		f(plan)
	}
}

func pow(base, exp int) int {
	n := 1
	for range exp {
		n *= base
	}
	return n
}

// Whatever becomes of its requests, a run ends with its last position stored, and no request that
// is late puts it back, even if the run has come to the same place again (J10).
func TestPositionsOnlyMoveOn(t *testing.T) {
	t.Parallel()
	eachPlan(6, func(plan []fault) {
		c := &cell{plan: plan}
		p := of(c, atOnce)
		for i := range 5 {
			if err := p.Save(t.Context(), place{Owner: "a", At: i % 2}, ownedBy("a")); err != nil {
				t.Fatal(plan, err)
			}
			if got := c.at(t).At; got != i%2 {
				t.Fatalf("%v: %d is stored, and %d was saved", plan, got, i%2)
			}
		}
		last := c.at(t)
		for _, apply := range c.delays {
			if apply(); c.at(t) != last {
				t.Fatalf("%v: a late request has replaced %+v by %+v", plan, last, c.at(t))
			}
		}
	})
}

// A run that gives up its saves, and goes on, never takes its own earlier position for a
// stranger's, nor stores two that are equal.
func TestPositionsAfterSavesWithoutAnswer(t *testing.T) {
	t.Parallel()
	eachPlan(5, func(plan []fault) {
		c := &cell{plan: plan}
		p := of(c, once)
		seen := map[string]bool{}
		for at := range 8 {
			err := p.Save(t.Context(), place{Owner: "a", At: at}, ownedBy("a"))
			if err != nil && !errors.Is(err, errNoAnswer) {
				t.Fatal(plan, err)
			}
			if err == nil && (c.at(t).At != at || seen[string(c.value)]) {
				t.Fatalf("%v: %s is stored after %d", plan, c.value, at)
			}
			seen[string(c.value)] = true
		}
		if c.at(t).At != 7 {
			t.Fatalf("%v: %s is stored in the end", plan, c.value)
		}
	})
}

// Once a run has taken the cell over, the former one stores nothing any more, early or late.
func TestPositionTakenOver(t *testing.T) {
	t.Parallel()
	eachPlan(4, func(plan []fault) {
		c := new(cell)
		former, next := of(c, atOnce), of(c, atOnce)
		if err := former.Save(t.Context(), place{Owner: "a"}, ownedBy("a")); err != nil {
			t.Fatal(err)
		}
		c.plan = plan
		former.Try = once
		for at := range 2 {
			_ = former.Save(t.Context(), place{Owner: "a", At: at}, ownedBy("a")) // it may have no answer
		}
		c.plan = nil
		now, stored, err := next.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next.Adopt(now, stored)
		if err := next.Save(t.Context(), place{Owner: "b", At: 10}, ownedBy("b")); err != nil {
			t.Fatal(plan, err)
		}
		for _, apply := range c.delays {
			apply()
		}
		if err := former.Save(t.Context(), place{Owner: "a", At: 11}, ownedBy("a")); !errors.Is(err, errTaken) || c.at(t).Owner != "b" {
			t.Fatalf("%v: %v, and %s is stored", plan, err, c.value)
		}
	})
}

// Where nothing goes wrong a save is one request, and two more after a lost answer.
func TestRequestsOfASave(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plan []fault
		want int
	}{"answered": {nil, 1}, "answer lost": {[]fault{lostAnswer}, 3}, "lost": {[]fault{lost}, 2}} {
		c := &cell{plan: test.plan}
		if err := of(c, atOnce).Save(t.Context(), place{Owner: "a"}, ownedBy("a")); err != nil || c.sent != test.want {
			t.Errorf("%s: %d requests, want %d: %v", name, c.sent, test.want, err)
		}
	}
}

// What another run has stored is judged, and may leave nothing to save.
func TestSaveBesideAnotherRun(t *testing.T) {
	t.Parallel()
	c := new(cell)
	p, beside := of(c, atOnce), of(c, atOnce)
	further := func(at int) func(place, bool) (bool, error) {
		return func(now place, _ bool) (bool, error) { return now.At > at, nil }
	}
	for i, save := range []struct {
		by   *position.Position[place]
		at   int
		want string
	}{{p, 1, "{1  1}"}, {beside, 5, "{2  5}"}, {p, 3, "{2  5}"}, {p, 7, "{3  7}"}, {beside, 8, "{4  8}"}} {
		if err := save.by.Save(t.Context(), place{At: save.at}, further(save.at)); err != nil || fmt.Sprint(c.at(t)) != save.want {
			t.Errorf("save %d: %v is stored, want %s: %v", i, c.at(t), save.want, err)
		}
	}
}
