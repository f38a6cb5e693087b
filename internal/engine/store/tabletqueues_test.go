package store

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// newQueues is queues of strings, which are their rows, of a table with so many tablets.
func newQueues(tablets int) *TabletQueues[string] {
	known := &Tablets{byName: map[string]*tableBounds{"t": {}}}
	var ends []string
	for i := 1; i < tablets; i++ {
		ends = append(ends, tabletStart(i))
	}
	known.byName["t"].ends.Store(&ends)
	return &TabletQueues[string]{Tablets: known, Table: "t", Most: Load{Rows: 10, Bytes: 100, Mutations: 50},
		Of: func(row string) (string, Load) { return row, Load{1, len(row), 5} }}
}

func tabletStart(i int) string { return fmt.Sprintf("%03d", i) }

// The requests in flight grow with the tablets, two for each, up to a limit.
func TestRequestsInFlightGrowWithTablets(t *testing.T) {
	t.Parallel()
	for tablets, want := range map[int]int{1: 2, 2: 4, 10: 20, 16: 32, 40: 32} {
		l := newQueues(tablets)
		for row := range 30 {
			for i := range tablets {
				l.Push(fmt.Sprint(tabletStart(i), "-", row))
			}
		}
		var slots []*Slot[string]
		for s := l.Next(); s != nil; s = l.Next() {
			slots = append(slots, s)
		}
		if len(slots) != want {
			t.Errorf("%d tablets have %d requests in flight, want %d", tablets, len(slots), want)
		}
		// Whoever is done passes its slot on until nothing is left.
		taken := 0
		for len(slots) > 0 {
			batch := slots[0].Take()
			if taken += len(batch); batch != nil && l.Mixed(batch) {
				t.Errorf("rows of several tablets in a request: %q", batch)
			} else if batch == nil {
				slots = slots[1:]
				for s := l.Next(); s != nil; s = l.Next() {
					slots = append(slots, s)
				}
			}
		}
		if taken != 30*tablets || !l.Idle() || len(l.others) > 0 {
			t.Errorf("%d tablets: %d of %d rows were taken, %d queues are left", tablets, taken, 30*tablets, len(l.others))
		}
	}
}

// Tablets for which more arrives all the time leave the others their turns, though there are more
// of them than requests in flight.
func TestEveryTabletHasItsTurn(t *testing.T) {
	t.Parallel()
	const tablets = 2 * tableInFlight
	l := newQueues(tablets)
	for i := range tablets {
		l.Push(tabletStart(i))
	}
	served := map[string]bool{}
	var slots []*Slot[string]
	for range 10 * tablets {
		for s := l.Next(); s != nil; s = l.Next() {
			slots = append(slots, s)
		}
		s := slots[0]
		slots = slots[1:]
		batch := s.Take()
		if batch == nil {
			continue
		}
		for _, row := range batch {
			served[row] = true
			l.Push(row) // before the request ends
		}
		slots = append(slots, s)
	}
	if len(served) != tablets {
		t.Errorf("%d of %d tablets had a request", len(served), tablets)
	}
}

// A request is bound by rows, by bytes and by mutations, and an item beyond them travels alone.
func TestRequestsAreBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most  Load
		bytes []int
		want  []int
	}{
		"rows":      {Load{Rows: 3, Bytes: 1000}, []int{1, 1, 1, 1}, []int{3, 1}},
		"bytes":     {Load{Rows: 9, Bytes: 100}, []int{50, 50, 1, 99, 1}, []int{2, 2, 1}},
		"too large": {Load{Rows: 9, Bytes: 100}, []int{50, 500, 50}, []int{1, 1, 1}},
		"mutations": {Load{Rows: 9, Bytes: 1000, Mutations: 10}, []int{1, 1, 1}, []int{2, 1}},
	} {
		l := newQueues(1)
		l.Most = c.most
		for _, n := range c.bytes {
			l.Push(strings.Repeat("x", n))
		}
		s := l.Next()
		for _, want := range c.want {
			if got := s.Take(); len(got) != want {
				t.Errorf("%s: a request of %d items, want %d of the sizes %v", name, len(got), want, c.bytes)
			}
		}
	}
}

// Bounds that become known cut what waits, and what was under way before leaves nothing behind.
func TestBoundsCutWhatWaits(t *testing.T) {
	t.Parallel()
	l := newQueues(1)
	for i := range 8 {
		l.Push(tabletStart(i % 4))
	}
	before := l.Next()
	l.Tablets = newQueues(4).Tablets
	l.bounds = l.Tablets.of("t")
	l.Cut()
	taken := 0
	for s := l.Next(); s != nil; s = l.Next() {
		for batch := s.Take(); batch != nil; batch = s.Take() {
			if taken += len(batch); l.Mixed(batch) {
				t.Errorf("rows of several tablets in a request: %q", batch)
			}
		}
	}
	for before.Take() != nil {
		taken += 2
	}
	if taken != 8 || !l.Idle() {
		t.Errorf("%d of 8 rows were taken, idle: %v", taken, l.Idle())
	}
}

// However many requests leave items behind while somebody finds out the bounds, nobody else does.
func TestOneFindsOutTheBounds(t *testing.T) {
	t.Parallel()
	l := newQueues(1)
	for range 200 {
		l.Push(tabletStart(0))
	}
	for round := range 2 {
		asked := 0
		for s, n := l.Next(), 0; n < 8; n++ {
			if s.Take(); s.Full() {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("round %d: the bounds were asked for %d times at once", round, asked)
		}
		l.Cut()
	}
}

// Of many keys few count, and they are spread evenly.
func TestBoundsOfManyTabletsAreThinned(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, tabletsMost - 1, tabletsMost, 1000} {
		keys := []string{}
		for i := range n {
			keys = append(keys, fmt.Sprintf("%05d", i))
		}
		ends := thinned(append(keys, ""))
		if len(ends) != min(n, tabletsMost-1) {
			t.Errorf("%d keys become %d bounds", n, len(ends))
		}
		for i := 1; i < len(ends); i++ {
			a, _ := strconv.Atoi(ends[i-1])
			b, _ := strconv.Atoi(ends[i])
			if b-a < n/tabletsMost || b-a > n/tabletsMost+1 {
				t.Errorf("of %d keys %d and %d follow each other", n, a, b)
			}
		}
	}
}
