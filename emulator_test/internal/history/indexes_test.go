package history

import "testing"

func TestIndexHasWhatItsTableHas(t *testing.T) {
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
