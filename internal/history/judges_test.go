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
