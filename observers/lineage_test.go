package observers

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// family is a lineage and a clock.
type family struct {
	*lineage
	now tso.Timestamp
}

func newFamily() *family { return &family{lineage: newLineage()} }

func kin(name string, opts ...Option) *runner {
	o := &observer{name: name}
	for _, opt := range opts {
		opt(&o.options)
	}
	return &runner{observer: o}
}

// run commits a run for rows that were changed at cause, and returns when, and the most laps of its
// cells.
func (f *family) run(rn *runner, cause tso.Timestamp, rows ...string) (ts tso.Timestamp, runs int) {
	changes := make([]Change, len(rows))
	for i, row := range rows {
		changes[i] = Change{Cell: percolator.Cell{Table: "t", Row: row, Column: "c"}, CommitTS: cause}
	}
	f.now = max(f.now, cause) + 1
	for _, l := range f.note(rn, changes, f.now) {
		runs = max(runs, l.runs)
	}
	return f.now, runs
}

// elsewhere is when another transaction commits.
func (f *family) elsewhere() tso.Timestamp {
	f.now++
	return f.now
}

func TestRunsOfLoopsAreCounted(t *testing.T) {
	t.Parallel()
	batch := []string{"a", "b", "c"}
	for name, rows := range map[string][]string{"one cell": {"a"}, "a batch": batch} {
		for hops := 1; hops <= generations; hops++ {
			t.Run(fmt.Sprintf("%s over %d observers", name, hops), func(t *testing.T) {
				t.Parallel()
				f, members := newFamily(), make([]*runner, hops)
				for i := range members {
					members[i] = kin(fmt.Sprint(i))
				}
				ts, runs := f.elsewhere(), 0
				for lap := range 3 * maxLaps {
					for i, rn := range members {
						if ts, runs = f.run(rn, ts, rows...); runs != lap {
							t.Fatalf("lap %d, observer %d: %d runs", lap, i, runs)
						}
					}
				}
			})
		}
	}
}

// What others change often is no loop, nor is what runs for ever more cells cause.
func TestHealthyRunsAreInNoLoop(t *testing.T) {
	t.Parallel()
	const many = 5 * maxLaps
	for name, f := range map[string]func(f *family) (most int){
		"a cell that others change": func(f *family) (most int) {
			hot := kin("hot")
			for range many {
				_, runs := f.run(hot, f.elsewhere(), "a")
				most = max(most, runs)
			}
			return most
		},
		"a cell that runs for other cells change": func(f *family) (most int) {
			leaf, hot := kin("leaf"), kin("hot")
			for i := range many {
				ts, _ := f.run(leaf, f.elsewhere(), fmt.Sprint(i))
				_, runs := f.run(hot, ts, "sum")
				most = max(most, runs)
			}
			return most
		},
		"a propagation": func(f *family) (most int) {
			next := kin("next")
			ts, runs := f.elsewhere(), 0
			for i := range many {
				ts, runs = f.run(next, ts, fmt.Sprint(i))
				most = max(most, runs)
			}
			return most
		},
		"a propagation each step of which changes one cell": func(f *family) (most int) {
			next, hot := kin("next"), kin("hot")
			ts := f.elsewhere()
			for i := range many {
				ts, _ = f.run(next, ts, fmt.Sprint(i))
				_, runs := f.run(hot, ts, "sum")
				most = max(most, runs)
			}
			return most
		},
		"a loop that others interrupt": func(f *family) (most int) {
			self := kin("self")
			ts, runs := f.elsewhere(), 0
			for i := range many {
				if ts, runs = f.run(self, ts, "a"); i%100 == 99 {
					ts = f.elsewhere()
				}
				most = max(most, runs)
			}
			return most / 100
		},
		"an observer that is meant to": func(f *family) (most int) {
			self := kin("self", Repeats())
			ts, runs := f.elsewhere(), 0
			for range many {
				ts, runs = f.run(self, ts, "a")
				most = max(most, runs)
			}
			return most
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if most := f(newFamily()); most > 0 {
				t.Errorf("%d runs in a loop", most)
			}
		})
	}
}

// TestLineageIsBounded: what is remembered has a limit, and healthy runs do not displace a loop
// that pauses.
func TestLineageIsBounded(t *testing.T) {
	t.Parallel()
	f, self, other := newFamily(), kin("self"), kin("other")
	ts, runs := f.elsewhere(), 0
	for range maxLaps + 1 {
		ts, runs = f.run(self, ts, "a")
	}
	for i := range 2 * ancestorsRemembered {
		f.run(other, f.elsewhere(), fmt.Sprint(i))
	}
	if n := f.runs.Len() + f.looping.Len(); n > 2*ancestorsRemembered {
		t.Errorf("%d runs are remembered", n)
	}
	if _, after := f.run(self, ts, "a"); after != runs+1 {
		t.Errorf("%d runs in a row after a pause, want %d", after, runs+1)
	}
}
