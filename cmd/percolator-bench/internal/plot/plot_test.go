package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// charts is one of each kind, in the ways that they are used.
func charts(t *testing.T) map[string]*Figure {
	t.Helper()
	must := func(f *Figure, err error) *Figure {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var samples, slow []float64
	for i := range 5000 {
		samples = append(samples, math.Exp(math.Sin(float64(i)*12.9)*1.2))
		slow = append(slow, 8*math.Exp(math.Sin(float64(i)*7.7)*1.6))
	}
	return map[string]*Figure{
		"lines": must(Lines(Chart{Title: "Distance of scanners over time", X: Axis{Label: "time, s"}, Y: Axis{Label: "distance, rows"},
			Marks: []Mark{{At: 25_000, Name: "even spread", Horizontal: true}}},
			Line{Name: "teleporting", X: []float64{0, 1, 2, 3, 4}, Y: []float64{21e3, 24e3, 22e3, 26e3, 24e3}, Points: true},
			Line{Name: "not teleporting", X: []float64{0, 1, 2, 3, 4}, Y: []float64{21e3, 14e3, 8e3, 3e3, 2e3}, Points: true})),
		"cdf": must(CDF(Chart{Title: "From commit of a write to commit of its observer", X: Axis{Label: "latency, ms", Log: true},
			Marks: []Mark{{At: 5, Name: "goal of the median"}, {At: 50, Name: "goal of p99"}}},
			Distribution{"direct dispatch", samples}, Distribution{"scan only", slow})),
		"bars": must(BarChart(Chart{Title: "Latency by hop", Y: Axis{Label: "p50, ms"}}, []string{"hop 1", "hop 2", "hop 3"},
			Bars{"direct dispatch", []float64{1.1, 1.2, 1.15}}, Bars{"scan only", []float64{61, 118, 190}})),
	}
}

func TestWellFormed(t *testing.T) {
	t.Parallel()
	for name, f := range charts(t) {
		dir := t.TempDir()
		if err := f.Save(filepath.Join(dir, "new"), name); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(filepath.Join(dir, "new", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]bool{}
		d := xml.NewDecoder(bytes.NewReader(svg))
		root, inText := "", false
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch e := token.(type) {
			case xml.StartElement:
				if root == "" {
					root = e.Name.Local
				}
				inText = e.Name.Local == "text"
			case xml.CharData:
				if inText {
					texts[strings.TrimSpace(string(e))] = true
				}
			}
		}
		if root != "svg" {
			t.Errorf("%s: the root is <%s>", name, root)
		}
		for _, p := range []string{f.title, f.xLabel, f.yLabel} {
			if p != "" && !texts[p] {
				t.Errorf("%s: %q is not written; there are %v", name, p, texts)
			}
		}
		if !bytes.Contains(svg, []byte("sans-serif")) {
			t.Errorf("%s: no font that every viewer has", name)
		}
		image, err := os.Open(filepath.Join(dir, "new", name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := png.Decode(image)
		_ = image.Close()
		if err != nil {
			t.Fatal(err)
		}
		if r, g, b, a := decoded.At(1, 1).RGBA(); min(r, g, b, a) != 0xffff {
			t.Errorf("%s: the background is not white", name)
		}
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	one := []float64{1}
	for name, err := range map[string]error{
		"no line":               second(Lines(Chart{})),
		"no point":              second(Lines(Chart{}, Line{})),
		"not a number":          second(Lines(Chart{}, Line{X: one, Y: []float64{math.NaN()}})),
		"infinite":              second(Lines(Chart{}, Line{X: one, Y: []float64{math.Inf(1)}})),
		"zero on log axis":      second(Lines(Chart{X: Axis{Log: true}}, Line{X: []float64{0}, Y: one})),
		"lengths differ":        second(Lines(Chart{}, Line{X: []float64{0, 1}, Y: one})),
		"no sample":             second(CDF(Chart{}, Distribution{})),
		"no category":           second(BarChart(Chart{}, nil, Bars{})),
		"too few values":        second(BarChart(Chart{}, []string{"a", "b"}, Bars{Values: one})),
		"logarithmic bar chart": second(BarChart(Chart{Y: Axis{Log: true}}, []string{"a"}, Bars{Values: one})),
	} {
		if !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ *Figure, err error) error { return err }

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.05: "0.05", 12.5: "12.5", 999: "999", 1000: "1,000", -25000: "-25,000", 1e6: "1,000,000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

// A distribution keeps its ends when it is thinned.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, maxSteps, maxSteps + 1, 100_000} {
		s := steps(n)
		if len(s) != min(n, maxSteps) || n > 0 && (s[0] != 0 || s[len(s)-1] != n-1) {
			t.Errorf("%d samples: %d steps", n, len(s))
		}
	}
}
