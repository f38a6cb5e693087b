package history

import (
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// eager returns a checker that judges whenever it is told to, and a recording of an observed cell.
func eager() (*Recording, *Checker, func(start, commit tso.Timestamp, f func(*Txn)) *Txn) {
	h := New()
	c := NewChecker(h, Rules{Observers: []Observer{{Name: "o", Table: "t", Column: "c"}}})
	c.least = 1
	return h, c, func(start, commit tso.Timestamp, f func(*Txn)) *Txn {
		tx := h.Begin("client-1", "test")
		tx.Started(start)
		f(tx)
		tx.End(Committed, commit)
		c.Complete(max(start, commit))
		return tx
	}
}

// TestObserversAcrossWindows: changes and runs are found to belong together, or not, however many
// windows lie between.
func TestObserversAcrossWindows(t *testing.T) {
	x := Cell{"t", "x", "c"}
	for _, c := range []struct {
		name string
		runs []tso.Timestamp // when runs begin for the change at 20
		also bool            // the cell is deleted at 300, and that is run for
		want []Kind
	}{
		{"one run", []tso.Timestamp{100}, false, nil},
		{"two runs", []tso.Timestamp{100, 200}, false, []Kind{anomalyDoubleRun}},
		{"no run", nil, false, []Kind{anomalyUnobserved}},
		{"a deletion", []tso.Timestamp{100}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, checker, txn := eager()
			pass := func(ts tso.Timestamp) { // windows without anything
				for i := range tso.Timestamp(5) {
					txn(ts+i, 0, func(tx *Txn) { tx.Read(Cell{"t", "other", "d"}, nil) })
				}
			}
			txn(10, 20, func(tx *Txn) { tx.Put(x, []byte("1")) })
			pass(30)
			for _, start := range c.runs {
				txn(start, start+1, func(tx *Txn) { tx.Observes(Run{Observer: "o", Cell: x, Change: 20}) })
				pass(start + 10)
			}
			if c.also {
				txn(290, 300, func(tx *Txn) { tx.Delete(x) })
				pass(310)
				txn(320, 330, func(tx *Txn) { tx.Observes(Run{Observer: "o", Cell: x, Change: 300}) })
				pass(340)
			}
			if r := checker.Finish(); !slices.Equal(r.Kinds(), c.want) {
				t.Errorf("%s", r)
			}
		})
	}
}

// TestLateTransactionsAreFound: who does not keep to what Complete was told is found.
func TestLateTransactionsAreFound(t *testing.T) {
	x := Cell{"t", "x", "c"}
	for name, f := range map[string]func(h *Recording, begun *Txn){
		"a transaction begins": func(h *Recording, _ *Txn) {
			tx := h.Begin("c", "late")
			tx.StartedAt(15)
			tx.End(Committed, 0)
		},
		"one goes on": func(_ *Recording, begun *Txn) { begun.Read(x, nil) },
		"one commits": func(_ *Recording, begun *Txn) { begun.End(Committed, 25) },
	} {
		t.Run(name, func(t *testing.T) {
			h, checker, txn := eager()
			begun := h.Begin("c", "begun")
			begun.Started(5)
			begun.Put(Cell{"t", "y", "d"}, []byte("1"))
			txn(10, 30, func(tx *Txn) { tx.Put(Cell{"t", "x", "d"}, []byte("1")) })
			f(h, begun)
			txn(40, 50, func(tx *Txn) { tx.Put(Cell{"t", "x", "d"}, []byte("2")) })
			if r := checker.Finish(); !slices.Contains(r.Kinds(), anomalyLate) {
				t.Errorf("%s", r)
			}
		})
	}
}

// TestUndecidedUntilAScanDecides: a transaction of unknown outcome is told until a scan decides,
// and a read that passed it over is stale.
func TestUndecidedUntilAScanDecides(t *testing.T) {
	y := Cell{"t", "y", "d"}
	for _, stale := range []bool{false, true} {
		h, checker, txn := eager()
		dead := h.Begin("c", "dead")
		dead.Started(5)
		dead.Put(y, []byte("1"))
		dead.Put(Cell{"t", "z", "d"}, []byte("1"))
		txn(10, 0, func(tx *Txn) { tx.Read(Cell{"t", "x", "d"}, nil) })
		if cells := checker.Undecided(); len(cells) != 2 || cells[0] != y {
			t.Errorf("undecided: %v", cells)
		}
		if stale {
			txn(20, 0, func(tx *Txn) { tx.Read(y, nil) })
		}
		txn(30, 0, func(tx *Txn) { tx.Scan("t", "z", "", nil, []Entry{{Cell{"t", "z", "d"}, []byte("1"), 8}}) })
		if cells := checker.Undecided(); len(cells) != 0 {
			t.Errorf("undecided: %v", cells)
		}
		var want []Kind
		if stale {
			want = []Kind{anomalyStaleRead}
		}
		if r := checker.Finish(); !slices.Equal(r.Kinds(), want) || !stale && r.Resolved != 1 {
			t.Errorf("%s", r)
		}
	}
}

// TestStoryTellsOfThoseInvolvedAlone: an anomaly tells what the transactions involved did, and
// nothing of others.
func TestStoryTellsOfThoseInvolvedAlone(t *testing.T) {
	h := New()
	txn := func(start, commit tso.Timestamp, f func(*Txn)) {
		tx := h.Begin("client-1", "test")
		tx.Started(start)
		f(tx)
		tx.End(Committed, commit)
	}
	x := Cell{"t", "x", "d"}
	txn(10, 20, func(tx *Txn) { tx.Put(x, []byte("1")) })
	txn(25, 0, func(tx *Txn) { tx.Read(Cell{"t", "y", "d"}, nil) })
	txn(30, 40, func(tx *Txn) {
		tx.Read(x, []byte("1"))
		tx.Put(x, []byte("2"))
	})
	txn(50, 60, func(tx *Txn) {
		tx.ReadAt(x, []byte("1"), 20)
		tx.Delete(x)
	})
	want := `stale read: T4 (test by client-1, start 50, commit 60, committed) read in t/x/d what T1 (test by client-1, start 10, commit 20, committed) wrote instead of what T3 (test by client-1, start 30, commit 40, committed) wrote
T1 (test by client-1, start 10, commit 20, committed)
  puts t/x/d = "1"
T3 (test by client-1, start 30, commit 40, committed)
  reads t/x/d = "1"
  puts t/x/d = "2"
T4 (test by client-1, start 50, commit 60, committed)
  reads t/x/d = "1" committed at 20
  deletes t/x/d
`
	a := Check(h, Rules{}).Anomalies
	if len(a) == 0 || a[0].String()+"\n"+strings.Join(a[0].History, "") != want {
		t.Errorf("%v", a)
	}
}

// TestQueuesAcrossWindows: contributions, totals, entries and calls are judged together, however
// many windows lie between.
func TestQueuesAcrossWindows(t *testing.T) {
	h, checker, txn := eager()
	txn(10, 20, func(tx *Txn) {
		tx.Contributes("k", 3)
		tx.Exports("p", 0, "a")
	})
	for start := tso.Timestamp(30); start < 90; start += 10 { // windows without anything
		txn(start, 0, func(tx *Txn) { tx.Read(Cell{"t", "other", "d"}, nil) })
	}
	txn(100, 0, func(tx *Txn) { tx.Total("k", 4) })
	h.Delivers("q", []Delivery{{Start: 10, Commit: 20, What: "a"}})
	want := []Kind{anomalyDelivery, anomalyUndelivered, anomalyTotal}
	slices.Sort(want)
	if r := checker.Finish(); !slices.Equal(r.Kinds(), want) {
		t.Errorf("%s", r)
	}
}
