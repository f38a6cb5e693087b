package oldplot

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Line is a series of points, in the order of X.
type Line struct {
	Name   string // in the legend; "": not there
	X, Y   []float64
	Points bool // shows each point
	Steps  bool // holds each value until the next
}

// Distribution is a number of samples, in any order.
type Distribution struct {
	Name    string
	Samples []float64
}

// Bars is one bar for each category of a bar chart.
type Bars struct {
	Name   string // in the legend; "": not there
	Values []float64
}

// Lines draws line charts.
func Lines(c Chart, lines ...Line) (*Figure, error) {
	f := c.begin()
	p := f.plot
	for i, l := range lines {
		if len(l.X) != len(l.Y) || len(l.X) == 0 {
			return nil, fmt.Errorf("%w: line %q has %d and %d coordinates", ErrEmpty, l.Name, len(l.X), len(l.Y))
		}
		points := make(plotter.XYs, len(l.X))
		for j := range points {
			if points[j] = (plotter.XY{X: l.X[j], Y: l.Y[j]}); !c.X.shows(l.X[j]) || !c.Y.shows(l.Y[j]) {
				return nil, fmt.Errorf("%w: line %q has the point %v", ErrEmpty, l.Name, points[j])
			}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("plot: %w", err)
		}
		line.Color, line.Width = colorOf(i), vg.Points(1.8)
		if l.Steps {
			line.StepStyle = plotter.PostStep
		}
		entry := []plot.Thumbnailer{line}
		p.Add(line)
		if l.Points {
			dots.Color, dots.Shape, dots.Radius = colorOf(i), draw.CircleGlyph{}, vg.Points(3)
			p.Add(dots)
			entry = append(entry, dots)
		}
		if l.Name != "" {
			f.legend.Add(l.Name, entry...)
		}
	}
	return f, c.end(p, len(lines) > 0)
}

// CDF draws which share of the samples is at most so large. The Y axis is set; its label and range are this function's.
func CDF(c Chart, distributions ...Distribution) (*Figure, error) {
	c.Y = Axis{Label: "share of all, %", Min: 0, Max: 100}
	lines := make([]Line, 0, len(distributions))
	for _, d := range distributions {
		x := slices.Sorted(slices.Values(d.Samples))
		line := Line{Name: d.Name, Steps: true}
		for _, i := range steps(len(x)) {
			line.X, line.Y = append(line.X, x[i]), append(line.Y, 100*float64(i+1)/float64(len(x)))
		}
		lines = append(lines, line)
	}
	return Lines(c, lines...)
}

// maxSteps is how many points of a distribution are drawn: more make a large file and no other picture.
const maxSteps = 1500

func steps(n int) []int {
	var out []int
	for i := range min(n, maxSteps) {
		if n <= maxSteps {
			out = append(out, i)
		} else {
			out = append(out, int(math.Round(float64(i)*float64(n-1)/(maxSteps-1))))
		}
	}
	return out
}

// BarChart draws the groups side by side, one bar of each for each category.
func BarChart(c Chart, categories []string, groups ...Bars) (*Figure, error) {
	if len(categories) == 0 || len(groups) == 0 {
		return nil, ErrEmpty
	}
	f := c.begin()
	p := f.plot
	const room = 420.0 // points for all bars, leaving the paths between them
	thick := vg.Length(min(48, room/float64(len(categories)*len(groups))))
	for i, g := range groups {
		if len(g.Values) != len(categories) || slices.ContainsFunc(g.Values, func(v float64) bool { return !c.Y.shows(v) }) {
			return nil, fmt.Errorf("%w: %q has the values %v for %d categories", ErrEmpty, g.Name, g.Values, len(categories))
		}
		bars, err := plotter.NewBarChart(plotter.Values(g.Values), thick)
		if err != nil {
			return nil, fmt.Errorf("plot: %w", err)
		}
		bars.Color, bars.LineStyle.Width = colorOf(i), 0
		bars.Offset = thick * vg.Length(float64(i)-float64(len(groups)-1)/2)
		p.Add(bars)
		if g.Name != "" {
			f.legend.Add(g.Name, bars)
		}
	}
	p.NominalX(categories...)
	p.X.Tick.Label.Font, p.X.Width = sans(10.5), vg.Points(0.5)
	p.Y.Min = min(p.Y.Min, 0)
	if c.Y.Log {
		return nil, fmt.Errorf("%w: bars begin at 0, which a logarithmic axis has not", ErrEmpty)
	}
	low, high := p.X.Min, p.X.Max
	err := c.end(p, true)
	p.X.Min, p.X.Max = low-0.5, high+0.5
	return f, err
}

// end fits the axes to the data and draws the marks across them.
func (c Chart) end(p *plot.Plot, any bool) error {
	if !any {
		return ErrEmpty
	}
	for _, m := range c.Marks { // they belong to what has to fit
		if m.Horizontal {
			p.Y.Min, p.Y.Max = min(p.Y.Min, m.At), max(p.Y.Max, m.At)
		} else {
			p.X.Min, p.X.Max = min(p.X.Min, m.At), max(p.X.Max, m.At)
		}
	}
	c.X.fit(&p.X, false)
	c.Y.fit(&p.Y, true)
	for _, m := range c.Marks {
		p.Add(mark{m})
	}
	return nil
}

// mark is a Mark as gonum draws it, across the chart whatever the axes are.
type mark struct{ Mark }

// Plot implements plot.Plotter.
func (m mark) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: color.RGBA{120, 120, 120, 255}, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(5), vg.Points(3)}}
	words := text.Style{Color: color.RGBA{100, 100, 100, 255}, Font: sans(10), Handler: plot.DefaultTextHandler}
	if m.Horizontal {
		at := y(m.At)
		c.StrokeLine2(style, c.Min.X, at, c.Max.X, at)
		words.XAlign = draw.XLeft
		c.FillText(words, vg.Point{X: c.Min.X + vg.Points(5), Y: at + vg.Points(3)}, m.Name)
		return
	}
	at := x(m.At)
	c.StrokeLine2(style, at, c.Min.Y, at, c.Max.Y)
	words.Rotation, words.XAlign, words.YAlign = math.Pi/2, draw.XRight, draw.YBottom
	c.FillText(words, vg.Point{X: at - vg.Points(3), Y: c.Max.Y - vg.Points(5)}, m.Name)
}
