package history

import (
	"slices"
	"testing"
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
	s := NewSnapshots()
	s.Add("c1", 10, "t/x/c", "5")
	s.Add("c2", 10, "t/x/c", "5")
	s.Add("c2", 20, "t/x/c", "6")
	s.Add("c2", 10, "t/y/c", "6")
	expectKinds(t, s.Check())
	s.Add("c2", 10, "t/x/c", "6")
	expectKinds(t, s.Check(), anomalyUnstable)
	s.Release(20)
	s.Add("c2", 20, "t/x/c", "7")
	if n := len(s.Check()); n != 1 {
		t.Errorf("%d anomalies after a release", n)
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
