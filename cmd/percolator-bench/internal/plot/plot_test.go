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

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// charts is one of each kind, in the ways that they are used.
func charts() []report.Chart {
	return []report.Chart{
		{Name: "lines", Title: "Distance of scanners over time", X: report.Axis{Label: "time, s"}, Y: report.Axis{Label: "distance, rows"},
			Marks: []report.Mark{{At: 25_000, Name: "even spread", Horizontal: true}},
			Lines: []report.Line{{Name: "teleporting", X: []float64{0, 1, 2, 3, 4}, Y: []float64{21e3, 24e3, 22e3, 26e3, 24e3}, Points: true},
				{Name: "not teleporting", X: []float64{0, 1, 2, 3, 4}, Y: []float64{21e3, 14e3, 8e3, 3e3, 2e3}, Points: true}}},
		{Name: "steps", Title: "From commit of a write to commit of its observer", X: report.Axis{Label: "latency, ms", Log: true},
			Y:     report.Axis{Label: "share of all, %", Max: 100},
			Marks: []report.Mark{{At: 5, Name: "goal of the median"}, {At: 50, Name: "goal of p99"}},
			Lines: []report.Line{{Name: "direct dispatch", X: []float64{0.3, 1, 2.7, 30}, Y: []float64{0, 50, 99, 100}, Steps: true},
				{Name: "scan only", X: []float64{2, 8, 40, 90}, Y: []float64{0, 50, 99, 100}, Steps: true}}},
		{Name: "bars", Title: "Latency by hop", Y: report.Axis{Label: "p50, ms"}, Categories: []string{"hop 1", "hop 2", "hop 3"},
			Bars: []report.Bars{{Name: "direct dispatch", Values: []float64{1.1, 1.2, 1.15}}, {Name: "scan only", Values: []float64{61, 118, 190}}}},
	}
}

func TestWellFormed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Save(filepath.Join(dir, "new"), charts()); err != nil {
		t.Fatal(err)
	}
	for _, c := range charts() {
		name := c.Name
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
		for _, p := range []string{c.Title, c.X.Label, c.Y.Label} {
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

func TestChartsThatCannotBeDrawnAreRefused(t *testing.T) {
	t.Parallel()
	one := []float64{1}
	lines := func(c report.Chart, l ...report.Line) report.Chart { c.Lines = l; return c }
	bars := func(c report.Chart, categories []string, b ...report.Bars) report.Chart {
		c.Categories, c.Bars = categories, b
		return c
	}
	for name, c := range map[string]report.Chart{
		"no line":               lines(report.Chart{}),
		"no point":              lines(report.Chart{}, report.Line{}),
		"not a number":          lines(report.Chart{}, report.Line{X: one, Y: []float64{math.NaN()}}),
		"infinite":              lines(report.Chart{}, report.Line{X: one, Y: []float64{math.Inf(1)}}),
		"zero on log axis":      lines(report.Chart{X: report.Axis{Log: true}}, report.Line{X: []float64{0}, Y: one}),
		"lengths differ":        lines(report.Chart{}, report.Line{X: []float64{0, 1}, Y: one}),
		"no category":           bars(report.Chart{}, nil, report.Bars{}),
		"no bars":               bars(report.Chart{}, []string{"a"}),
		"too few values":        bars(report.Chart{}, []string{"a", "b"}, report.Bars{Values: one}),
		"logarithmic bar chart": bars(report.Chart{Y: report.Axis{Log: true}}, []string{"a"}, report.Bars{Values: one}),
	} {
		if _, err := Draw(c); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestThousandsAreSeparated(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.05: "0.05", 12.5: "12.5", 999: "999", 1000: "1,000", -25000: "-25,000", 1e6: "1,000,000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
