package main

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
)

// plotFig8 draws ratios as bars and throughput as lines, by goroutines, reads and writes apart.
func plotFig8(dir string, r *bench.Fig8Report) error {
	for _, c := range []struct {
		file, ratio, throughput string
		write                   bool
		paper                   float64
	}{
		{"fig8-reads", "Reads in transactions against raw ReadRow", "Reads", false, 0.94},
		{"fig8-writes", "Writes in transactions against raw requests", "Writes", true, 0.23},
	} {
		var series [][]bench.Fig8Measurement // by name, in order
		for _, m := range r.Measurements {
			switch last := len(series) - 1; {
			case m.Write != c.write:
			case last >= 0 && series[last][0].Name == m.Name:
				series[last] = append(series[last], m)
			default:
				series = append(series, []bench.Fig8Measurement{m})
			}
		}
		if len(series) == 0 {
			continue
		}
		bars, err := fig8Bars(plot.Chart{
			Title: c.ratio, X: plot.Axis{Label: "goroutines"}, Y: plot.Axis{Label: "throughput, raw = 1"},
			Marks: []plot.Mark{{At: c.paper, Name: "paper", Horizontal: true}},
		}, series)
		if err != nil {
			return err
		}
		lines, err := fig8Lines(plot.Chart{
			Title: c.throughput, X: plot.Axis{Label: "goroutines", Log: true}, Y: plot.Axis{Label: "rows a second"},
		}, series)
		if err != nil {
			return err
		}
		for name, f := range map[string]*plot.Figure{c.file + "-ratio": bars, c.file + "-throughput": lines} {
			if err := f.Save(dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func fig8Bars(c plot.Chart, series [][]bench.Fig8Measurement) (*plot.Figure, error) {
	var goroutines []string
	var bars []plot.Bars
	for i, s := range series {
		b := plot.Bars{Name: s[0].Name}
		for _, m := range s {
			if b.Values = append(b.Values, m.Ratio.Median); i == 0 {
				goroutines = append(goroutines, strconv.Itoa(m.Goroutines))
			}
		}
		bars = append(bars, b)
	}
	return plot.BarChart(c, goroutines, bars...)
}

// fig8Lines draws each operation of ours once, and each raw one.
func fig8Lines(c plot.Chart, series [][]bench.Fig8Measurement) (*plot.Figure, error) {
	var lines []plot.Line
	drawn := map[string]bool{}
	add := func(operation, name string, s []bench.Fig8Measurement, of func(bench.Fig8Measurement) bench.Summary) {
		if drawn[operation] {
			return
		}
		drawn[operation] = true
		l := plot.Line{Name: name, Points: true}
		for _, m := range s {
			l.X, l.Y = append(l.X, float64(m.Goroutines)), append(l.Y, of(m).Median*float64(m.RowsPerOp))
		}
		lines = append(lines, l)
	}
	for _, s := range series {
		slices.SortFunc(s, func(a, b bench.Fig8Measurement) int { return cmp.Compare(a.Goroutines, b.Goroutines) })
		add(s[0].Ours, s[0].Name, s, func(m bench.Fig8Measurement) bench.Summary { return m.OursPerSecond })
		add(s[0].Raw, s[0].Raw, s, func(m bench.Fig8Measurement) bench.Summary { return m.RawPerSecond })
	}
	return plot.Lines(c, lines...)
}
