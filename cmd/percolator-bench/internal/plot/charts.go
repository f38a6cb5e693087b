package plot

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

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// Draw draws a chart.
func Draw(c report.Chart) (*Figure, error) {
	if len(c.Categories) > 0 {
		return drawBars(c)
	}
	return drawLines(c)
}

func drawLines(c report.Chart) (*Figure, error) {
	f := begin(c)
	p := f.plot
	for i, l := range c.Lines {
		if len(l.X) != len(l.Y) || len(l.X) == 0 {
			return nil, fmt.Errorf("%w: line %q has %d and %d coordinates", ErrEmpty, l.Name, len(l.X), len(l.Y))
		}
		points := make(plotter.XYs, len(l.X))
		for j := range points {
			if points[j] = (plotter.XY{X: l.X[j], Y: l.Y[j]}); !shows(c.X, l.X[j]) || !shows(c.Y, l.Y[j]) {
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
	return f, end(c, p, len(c.Lines) > 0)
}

// drawBars draws the groups side by side, one bar of each for each category.
func drawBars(c report.Chart) (*Figure, error) {
	f := begin(c)
	p := f.plot
	const room = 420.0 // points for all bars, leaving the paths between them
	thick := vg.Length(min(48, room/float64(len(c.Categories)*len(c.Bars))))
	for i, g := range c.Bars {
		if len(g.Values) != len(c.Categories) || slices.ContainsFunc(g.Values, func(v float64) bool { return !shows(c.Y, v) }) {
			return nil, fmt.Errorf("%w: %q has the values %v for %d categories", ErrEmpty, g.Name, g.Values, len(c.Categories))
		}
		bars, err := plotter.NewBarChart(plotter.Values(g.Values), thick)
		if err != nil {
			return nil, fmt.Errorf("plot: %w", err)
		}
		bars.Color, bars.LineStyle.Width = colorOf(i), 0
		bars.Offset = thick * vg.Length(float64(i)-float64(len(c.Bars)-1)/2)
		p.Add(bars)
		if g.Name != "" {
			f.legend.Add(g.Name, bars)
		}
	}
	p.NominalX(c.Categories...)
	p.X.Tick.Label.Font, p.X.Width = sans(10.5), vg.Points(0.5)
	p.Y.Min = min(p.Y.Min, 0)
	if c.Y.Log {
		return nil, fmt.Errorf("%w: bars begin at 0, which a logarithmic axis has not", ErrEmpty)
	}
	low, high := p.X.Min, p.X.Max
	err := end(c, p, len(c.Bars) > 0)
	p.X.Min, p.X.Max = low-0.5, high+0.5
	return f, err
}

// end fits the axes to the data and draws the marks across them.
func end(c report.Chart, p *plot.Plot, any bool) error {
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
	fit(c.X, &p.X, false)
	fit(c.Y, &p.Y, true)
	for _, m := range c.Marks {
		p.Add(mark{m})
	}
	return nil
}

// mark is a report.Mark as gonum draws it, across the chart whatever the axes are.
type mark struct{ report.Mark }

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
