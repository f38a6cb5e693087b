package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
)

func printScale(w io.Writer, r *bench.ScaleReport) error {
	_, _ = fmt.Fprintf(w, "one caller on %s, %s, %d CPUs; values of %d bytes, %d times %d samples of each operation\n",
		r.Emulator, r.GoVersion, r.CPUs, r.Value, r.Repeat, r.Samples)
	_, _ = fmt.Fprintf(w, "all tables, full: %.0f MB in this process\n", r.HeapMB)
	_, _ = fmt.Fprint(w, "µs: median of the repetitions' medians, and p99 of all samples; × smallest: median, least and greatest of the repetitions\n\n")
	for _, s := range r.Sweeps {
		_, _ = fmt.Fprintf(w, "%s (%s): %d cells filled in within %.1f s, %d answers right\n",
			s.Name, s.Fixed, s.Filled, s.FillS, s.Checked)
		rows := []string{"\t" + s.Name + "\tn\tµs\tp99\tof a\t× smallest\tleast\tgreatest\trequests\trows read"}
		for _, op := range s.Operations {
			for i, p := range op.Points {
				name := ""
				if i == 0 {
					name = op.Name
				}
				rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%s\t%.1f", name, p.Size, p.Count, scaleUS(p.US.Median), scaleUS(p.P99), op.Per,
					p.Ratio.Median, p.Ratio.Min, p.Ratio.Max, scaleRequests(p), p.RowsRead))
			}
		}
		printBlock(w, rows...)
		grown := []string{"\tcost of a\tgrows as size to the power of\twhat"}
		for _, op := range s.Operations {
			grown = append(grown, fmt.Sprintf("%s\t%s\t%.2f\t%s", op.Name, op.Per, op.Exponent, op.What))
		}
		if len(s.Sizes) > 1 {
			printBlock(w, grown...)
		}
	}
	_, err := fmt.Fprintln(w, "requests and rows read: of each operation, or of a pass through the whole table")
	return err
}

// scaleUS writes microseconds: of a row they are few, of a pass many.
func scaleUS(us float64) string {
	if us < 100 {
		return fmt.Sprintf("%.2f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// scaleRequests lists requests by kind.
func scaleRequests(p bench.ScalePoint) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(p.Requests)) {
		out = append(out, fmt.Sprintf("%s %.3g", kind, p.Requests[kind]))
	}
	return strings.Join(out, ", ")
}

// plotScale draws a chart for each sweep: how much more than at the smallest size each operation costs.
func plotScale(dir string, r *bench.ScaleReport) error {
	for _, s := range r.Sweeps {
		var lines []plot.Line
		for _, op := range s.Operations {
			l := plot.Line{Name: fmt.Sprintf("%s (size^%.2f)", op.Name, op.Exponent), Points: true}
			if op.Per != "operation" {
				l.Name = fmt.Sprintf("%s, of a %s (size^%.2f)", op.Name, op.Per, op.Exponent)
			}
			for _, p := range op.Points {
				l.X, l.Y = append(l.X, float64(p.Size)), append(l.Y, p.Ratio.Median)
			}
			lines = append(lines, l)
		}
		f, err := plot.Lines(plot.Chart{
			Title: fmt.Sprintf("Cost by %s (%s)", s.Name, s.Fixed),
			X:     plot.Axis{Label: s.Name, Log: true}, Y: plot.Axis{Label: "cost, relative to the smallest", Log: true},
		}, lines...)
		if err != nil {
			return err
		}
		if err := f.Save(dir, "scale-"+s.Name); err != nil {
			return err
		}
	}
	return nil
}
