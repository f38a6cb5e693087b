package report

import (
	"strings"
	"testing"
	"time"
)

// A figure that was measured several times is told with its spread, unless it did not vary.
func TestRepeatedFigureHasItsSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		samples []float64
		want    Figure
		text    string
	}{
		{[]float64{3}, Figure{Value: 3, Spread: &Spread{3, 3}}, "3"}, {[]float64{2, 1, 2, 4}, Figure{Value: 2, Spread: &Spread{1, 4}}, "2 (1 – 4)"},
		{[]float64{0, 0}, Figure{Spread: &Spread{}}, "0"}, {[]float64{0.5, 12.25, 1234.5}, Figure{Value: 12.25, Spread: &Spread{0.5, 1234.5}}, "12.2 (0.500 – 1234)"},
	} {
		r := new(Row)
		r.Add("x", c.samples)
		f := r.Figure("x")
		if f.Value != c.want.Value || *f.Spread != *c.want.Spread || f.String() != c.text || Median(c.samples) != f.Value {
			t.Errorf("%v: %+v %+v %q, want %+v %q", c.samples, f, f.Spread, f, c.want, c.text)
		}
	}
}

// A goal is met by the figure's value, on the side that is wanted.
func TestGoalIsMetOnTheWantedSide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value   float64
		atLeast bool
		met     bool
		text    string
	}{{2, true, true, "2, ≥ 2: met"}, {1.5, true, false, "1.50, ≥ 2: missed"}, {2, false, true, "2, ≤ 2: met"}, {2.5, false, false, "2.50, ≤ 2: missed"}} {
		r := new(Row)
		r.Add("x", c.value)
		r.Want(Goal{Wanted: 2, AtLeast: c.atLeast})
		if f := r.Figure("x"); f.Goal.Met != c.met || f.String() != c.text {
			t.Errorf("%+v: %q", c, f)
		}
	}
}

// Tables list each row once, with the figures of all rows as columns; series are left out.
func TestWriteTables(t *testing.T) {
	t.Parallel()
	r := New("some", time.Unix(0, 0))
	r.Title, r.Emulator, r.Notes = "a title", "an emulator", []string{"a note"}
	r.Table("work").Row("first").Add("n", 1)
	r.Table("work").Row("second").Add("time, ms", 2.5)
	r.Table("work").Row("first").Add("who", "me")
	r.Table("hidden").Row("row").Add("m", int64(3))
	r.Table("hidden").Series = true
	var b strings.Builder
	if err := r.WriteTables(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"a title", "", "", "work n who time ms", "first 1 me", "second 2.50", "", "a note"}
	for i := range want {
		if i != 1 && (i >= len(got) || got[i] != want[i]) {
			t.Errorf("line %d of %q, want %q", i, got, want[i])
		}
	}
	if !strings.Contains(got[1], "1970-01-01, on an emulator") {
		t.Errorf("%q", got[1])
	}
}
