package history

import (
	"slices"
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// found are the kinds of anomalies, each once.
func found(as []Anomaly) []Kind {
	var ks []Kind
	for _, a := range as {
		ks = append(ks, a.Kind)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

func expectKinds(t *testing.T, as []Anomaly, want ...Kind) {
	t.Helper()
	slices.Sort(want)
	if got := found(as); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", as, want)
	}
}

func TestRuns(t *testing.T) {
	x, y := Cell{"t", "x", "c"}, Cell{"t", "y", "c"}
	run := func(c Cell, change, start tso.Timestamp) CommittedRun {
		return CommittedRun{Observer: "o", Cell: c, Change: change, Start: start, Commit: start + 1}
	}
	for _, c := range []struct {
		name    string
		changes []tso.Timestamp // of x
		runs    []CommittedRun
		want    []Kind
	}{
		{"each change, and one that was passed over", []tso.Timestamp{10, 20, 30}, []CommittedRun{run(x, 10, 15), run(x, 30, 35)}, nil},
		{"no run", []tso.Timestamp{10}, nil, []Kind{anomalyUnobserved}},
		{"no run for the newest", []tso.Timestamp{10, 20}, []CommittedRun{run(x, 10, 15)}, []Kind{anomalyUnobserved}},
		{"two runs", []tso.Timestamp{10}, []CommittedRun{run(x, 10, 15), run(x, 10, 20)}, []Kind{anomalyDoubleRun}},
		{"for an older change", []tso.Timestamp{10, 20}, []CommittedRun{run(x, 10, 25)}, []Kind{anomalyStaleRun}},
		{"for a change to come", []tso.Timestamp{10}, []CommittedRun{run(x, 10, 5), run(x, 10, 15)}, []Kind{anomalyDoubleRun, anomalyStaleRun}},
		{"for no change", []tso.Timestamp{10}, []CommittedRun{run(x, 10, 15), run(y, 10, 15)}, []Kind{anomalyStaleRun}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Runs
			for _, ts := range c.changes {
				r.AddChange(x, ts)
			}
			for _, run := range c.runs {
				r.AddRun(run)
			}
			expectKinds(t, r.Check(func(Cell) []string { return []string{"o"} }), c.want...)
		})
	}
}

func TestTotals(t *testing.T) {
	for _, c := range []struct {
		name     string
		snapshot tso.Timestamp
		sum      int64
		wrong    bool
	}{
		{"nothing yet", 5, 0, false},
		{"the first", 20, 3, false},
		{"both, and not the unknown one", 60, 10, false},
		{"both, and the unknown one", 60, 110, false},
		{"one is missing", 60, 7, true},
		{"one counts twice", 60, 13, true},
		{"one comes too early", 30, 10, true},
		{"an unknown one before its start", 30, 103, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q Totals
			q.Add("k", 10, 20, 3)
			q.Add("k", 25, 50, 7)
			q.Add("k", 40, 0, 100)
			q.AddRead("k", c.snapshot, c.sum)
			var want []Kind
			if c.wrong {
				want = []Kind{anomalyTotal}
			}
			expectKinds(t, q.Check(), want...)
		})
	}
}

func TestDeliveries(t *testing.T) {
	a, b, c := EntryKey{"p", 10, 0}, EntryKey{"p", 10, 1}, EntryKey{"p", 30, 0}
	beside, unknown, aborted := EntryKey{"p", 15, 0}, EntryKey{"p", 50, 0}, EntryKey{"p", 60, 0}
	for _, x := range []struct {
		name  string
		calls [][]EntryKey
		want  []Kind
	}{
		{"in order", [][]EntryKey{{a, b}, {beside}, {c}}, nil},
		{"overlapping ones in either order", [][]EntryKey{{beside}, {a, b}, {c}}, nil},
		{"again", [][]EntryKey{{a, b, beside}, {c}, {a, b}}, nil},
		{"of unknown outcome", [][]EntryKey{{a, b, beside, c, unknown}}, nil},
		{"late", [][]EntryKey{{c}, {a, b, beside}}, []Kind{anomalyQueueOrder}},
		{"out of order in a call", [][]EntryKey{{b, a, beside, c}}, []Kind{anomalyQueueOrder}},
		{"one is missing", [][]EntryKey{{a, beside, c}}, []Kind{anomalyUndelivered}},
		{"aborted", [][]EntryKey{{a, b, beside, c, aborted}}, []Kind{anomalyDelivery}},
		{"of nobody", [][]EntryKey{{a, b, beside, c, {"p", 99, 0}}}, []Kind{anomalyDelivery}},
		{"of another partition", [][]EntryKey{{a, b, beside, c, {"q", 10, 0}}}, []Kind{anomalyDelivery}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var q Deliveries
			q.Add(a, Committed, 20)
			q.Add(b, Committed, 20)
			q.Add(beside, Committed, 35)
			q.Add(c, Committed, 40)
			q.Add(unknown, Unknown, 0)
			q.Add(aborted, Aborted, 0)
			q.Add(EntryKey{"q", 10, 0}, Committed, 20)
			for _, call := range x.calls {
				q.AddCall("p", call...)
			}
			q.AddCall("q", EntryKey{"q", 10, 0})
			expectKinds(t, q.Check(true), x.want...)
			if slices.Contains(x.want, anomalyUndelivered) {
				expectKinds(t, q.Check(false))
			}
		})
	}
}

func TestSnapshots(t *testing.T) {
	var as []Anomaly
	s := NewSnapshots(func(a Anomaly) { as = append(as, a) })
	for _, at := range []tso.Timestamp{10, 20, 20} {
		s.Keep(at)
	}
	s.Add("c1", 10, "t/x/c", []byte("5"))
	s.Add("c2", 10, "t/x/c", []byte("5"))
	s.Add("c2", 20, "t/x/c", []byte("6"))
	s.Add("c2", 10, "t/y/c", []byte("6"))
	s.Add("c1", 30, "t/x/c", []byte("6")) // which nobody keeps
	s.Add("c2", 30, "t/x/c", []byte("7"))
	expectKinds(t, as)
	s.Add("c2", 10, "t/x/c", []byte("6"))
	expectKinds(t, as, anomalyUnstable)
	s.Release(20)
	s.Add("c2", 20, "t/x/c", []byte("7"))
	if len(as) != 2 {
		t.Errorf("%d anomalies of a snapshot that one of two has released", len(as))
	}
	s.Release(20)
	s.Release(10)
	if len(s.kept) > 0 {
		t.Errorf("%d snapshots are remembered that nobody keeps", len(s.kept))
	}
}

// TestJudged: what another judge finds in a transaction is in the report.
func TestJudged(t *testing.T) {
	h := New()
	x := Index{Name: "i"}
	x.AddEntry("1", "a")
	reader := h.Begin("c", "view")
	reader.Started(10)
	reader.Judged(x.Check()...)
	reader.End(Committed, 0)
	h.Judged(Anomaly{Kind: anomalyUnstable, Text: "two answers"})
	if got := Check(h, Rules{}).Kinds(); !slices.Equal(got, []Kind{anomalyIndex, anomalyUnstable}) {
		t.Errorf("found %q", got)
	}
}

func TestIndex(t *testing.T) {
	for _, c := range []struct {
		name    string
		unique  bool
		rows    [][2]string // row, value
		entries [][2]string // value, row
		want    []Kind
	}{
		{"equal", true, [][2]string{{"a", "1"}, {"b", "2"}}, [][2]string{{"1", "a"}, {"2", "b"}}, nil},
		{"not unique", false, [][2]string{{"a", "1"}, {"b", "1"}}, [][2]string{{"1", "a"}, {"1", "b"}}, nil},
		{"two of a unique value", true, [][2]string{{"a", "1"}, {"b", "1"}}, [][2]string{{"1", "a"}, {"1", "b"}}, []Kind{anomalyUnique}},
		{"an entry is missing", true, [][2]string{{"a", "1"}, {"b", "2"}}, [][2]string{{"1", "a"}}, []Kind{anomalyIndex}},
		{"an entry was left", true, [][2]string{{"a", "1"}}, [][2]string{{"1", "a"}, {"2", "a"}}, []Kind{anomalyIndex}},
		{"an entry of no row", true, [][2]string{{"a", "1"}}, [][2]string{{"1", "a"}, {"2", "b"}}, []Kind{anomalyIndex}},
		{"an entry twice", true, [][2]string{{"a", "1"}}, [][2]string{{"1", "a"}, {"1", "a"}}, []Kind{anomalyIndex}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := Index{Name: "i", Unique: c.unique}
			for _, r := range c.rows {
				x.AddRow(r[0], r[1])
			}
			for _, e := range c.entries {
				x.AddEntry(e[0], e[1])
			}
			expectKinds(t, x.Check(), c.want...)
		})
	}
}
