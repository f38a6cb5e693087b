// Package plot draws the charts of a report: lines and bars. Every chart has a title, axes with
// units and a white background of its own, so that it reads the same in light and dark viewers.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	decimal "golang.org/x/text/number"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// The size of a chart, in points of 1/72 inch.
const (
	width  = 640
	height = 380
)

// ErrEmpty is the error of a chart without anything to draw, or with a value that an axis cannot
// show: NaN, infinite, or not above 0 on a logarithmic axis.
var ErrEmpty = errors.New("plot: nothing that can be drawn")

// Figure is a chart that is ready to be written.
type Figure struct {
	title  string
	legend plot.Legend

	// Beside the plot: within it, gonum keeps room for them as if a logarithmic axis were linear.
	xLabel, yLabel string

	plot *plot.Plot
}

// palette is told apart by people who do not see all colours (Okabe and Ito), darkest first.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{90, 90, 90, 255},
}

func colorOf(i int) color.Color { return palette[i%len(palette)] }

var (
	ink  = color.RGBA{51, 51, 51, 255}
	pale = color.RGBA{225, 225, 225, 255}
)

// sans is a font without serifs; the SVG names others that viewers have (see render).
func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Length(size)}
}

// begin makes an empty figure of the house's style.
func begin(c report.Chart) *Figure {
	p := plot.New()
	p.BackgroundColor = color.White
	style(c.X, &p.X)
	style(c.Y, &p.Y)
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = pale, pale
	g.Vertical.Width, g.Horizontal.Width = vg.Points(0.6), vg.Points(0.6)
	p.Add(g)
	l := plot.NewLegend()
	l.TextStyle.Font, l.TextStyle.Color = sans(11), ink
	l.Top, l.Padding, l.ThumbnailWidth = true, vg.Points(2), vg.Points(22)
	return &Figure{title: c.Title, legend: l, xLabel: c.X.Label, yLabel: c.Y.Label, plot: p}
}

func style(a report.Axis, to *plot.Axis) {
	to.Tick.Label.Font, to.Tick.Label.Color = sans(10.5), ink
	to.LineStyle.Color, to.Tick.LineStyle.Color = ink, ink
	to.Padding = 0
	to.Tick.Marker = ticks{plot.DefaultTicks{}}
	if a.Log {
		to.Scale, to.Tick.Marker = plot.LogScale{}, ticks{plot.LogTicks{}}
	}
}

// fit sets the ends of an axis that were not given: a little room above the data, and whole decades
// on a logarithmic one.
func fit(a report.Axis, to *plot.Axis, room bool) {
	switch {
	case a.Max > 0:
		to.Min, to.Max = 0, a.Max
	case a.Log:
		to.Min, to.Max = math.Pow(10, math.Floor(math.Log10(to.Min))), math.Pow(10, math.Ceil(math.Log10(to.Max)))
		if to.Min == to.Max {
			to.Max = 10 * to.Min
		}
		to.Min *= 1 - 1e-9 // the ticks at the ends are powers that were rounded otherwise
		to.Max *= 1 + 1e-9
	default:
		if to.Min > 0 && to.Min < to.Max/2 {
			to.Min = 0
		}
		if room {
			to.Max += (to.Max - to.Min) / 12
		}
		if to.Min == to.Max {
			to.Min, to.Max = to.Min-1, to.Max+1
		}
	}
}

// shows tells whether the axis can show the value.
func shows(a report.Axis, v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.Log || v > 0)
}

// ticks are those of gonum within the axis, with numbers as people write them. One beyond the axis
// is not drawn, but would get its room.
type ticks struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	out := slices.DeleteFunc(t.Ticker.Ticks(low, high), func(t plot.Tick) bool { return t.Value < low || t.Value > high })
	for i := range out {
		if out[i].Label != "" {
			out[i].Label = number(math.Round(out[i].Value*1e9) / 1e9)
		}
	}
	return out
}

// number writes large numbers in groups of three digits.
func number(v float64) string {
	return message.NewPrinter(language.English).Sprint(decimal.Decimal(v, decimal.MaxFractionDigits(9)))
}

// render draws the title and the legend above the plot, where they hide nothing. Viewers of an SVG
// take the first font that they have.
func (f *Figure) render(format string) ([]byte, error) {
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return nil, fmt.Errorf("plot: %w", err)
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	const margin = 12
	inner := draw.Crop(all, margin, -margin, margin, -margin)
	legend := f.legend.Rectangle(inner)
	f.legend.Draw(inner)
	title := text.Style{Color: ink, Font: sans(14), YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
	inner.FillText(title, vg.Point{X: inner.Min.X, Y: inner.Max.Y}, f.title)
	above := max(legend.Size().Y, title.Font.Size) + margin
	label := text.Style{Color: ink, Font: sans(12), Rotation: math.Pi / 2, XAlign: draw.XCenter, YAlign: draw.YTop,
		Handler: plot.DefaultTextHandler}
	inner.FillText(label, vg.Point{X: inner.Min.X, Y: (inner.Min.Y + inner.Max.Y - vg.Length(above)) / 2}, f.yLabel)
	label.Rotation, label.YAlign = 0, draw.YBottom
	inner.FillText(label, vg.Point{X: inner.Center().X, Y: inner.Min.Y}, f.xLabel)
	room := label.Font.Size + margin/2
	f.plot.Draw(draw.Crop(inner, room, 0, room, -above))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("plot: %w", err)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), nil
}

// Save writes each chart as dir/NAME.svg and dir/NAME.png, and makes the directory if need be.
func Save(dir string, charts []report.Chart) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		f, err := Draw(c)
		if err != nil {
			return fmt.Errorf("chart %s: %w", c.Name, err)
		}
		for _, format := range []string{"svg", "png"} {
			image, err := f.render(format)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, c.Name+"."+format), image, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// Draw draws a chart.
func Draw(c report.Chart) (*Figure, error) {
	switch {
	case len(c.Categories) > 0 && len(c.Bars) > 0:
		return drawBars(c)
	case len(c.Categories) == 0 && len(c.Lines) > 0:
		return drawLines(c)
	}
	return nil, ErrEmpty
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
	end(c, p)
	return f, nil
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
	end(c, p)
	p.X.Min, p.X.Max = low-0.5, high+0.5
	return f, nil
}

// end fits the axes to the data and draws the marks across them.
func end(c report.Chart, p *plot.Plot) {
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
