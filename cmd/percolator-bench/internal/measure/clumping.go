package measure

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/clumping"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// clumpingBenchmark simulates every way to search for notifications (section 2.4 of the paper)
// under the same load.
type clumpingBenchmark struct{ clumping.Config }

func (b *clumpingBenchmark) check() error {
	return errors.Join(unless(b.Tablets <= b.Rows, "--tablets %d are more than --rows %d", b.Tablets, b.Rows),
		within("workers times --scanners", b.Workers*b.Scanners, 1, clumping.MaxScanners))
}

func (b *clumpingBenchmark) run(ctx context.Context, r *run) error {
	c := b.Config
	c.Every = min(c.Every, c.Duration)
	variants := clumping.Variants()
	r.all = len(variants)
	r.Title = fmt.Sprintf("%d workers with %d scanners each on %d rows, %.0f writes/s, %v simulated; distances as shares of the table",
		c.Workers, c.Scanners, c.Rows, c.Writes, c.Duration)
	charts := []struct {
		file, title, axis string
		top, mark         float64
		value             string
		lines             []report.Line
	}{
		{"clumping-distance", "Scanners: mean distance of two", "mean distance, share of the table", 0.5, 0.25, "mean distance", nil},
		{"clumping-close", "Scanners: pairs that are close", "pairs less than 1 % of the table apart, %", 0, 2, "close pairs", nil},
		{"clumping-least", "Scanners: least distance of two", "least distance, share of the table", 0, 0, "least distance", nil},
		{"clumping-twice", "Scanners: rows that another one had read", "rows read twice, %", 100, 0, "read twice", nil},
	}
	for _, variant := range variants {
		v, err := clumping.Run(ctx, c, variant)
		if err != nil {
			return err
		}
		row := r.Table("clumping").Row(v.Name)
		distances(row, v.Sample)
		row.Add("row reads", v.Reads, "runs", v.Runs, "wasted, %", 100*v.Wasted, "dirty for, s", v.Waited, "teleports", v.Teleports)
		samples := r.Table("over time: " + v.Name)
		samples.Series = true
		for _, s := range v.Samples {
			row := samples.Append(v.Name)
			row.Add("at, s", s.Seconds)
			distances(row, s)
		}
		for i := range charts {
			charts[i].lines = append(charts[i].lines, smooth(samples.Line(v.Name, "at", charts[i].value, nil)))
		}
		r.step()
	}
	for _, chart := range charts {
		out := report.Chart{Name: chart.file, Title: chart.title, Lines: chart.lines,
			X: report.Axis{Label: "time, s"}, Y: report.Axis{Label: chart.axis, Max: chart.top}}
		if chart.mark > 0 {
			out.Marks = []report.Mark{{At: chart.mark, Name: "random places", Horizontal: true}}
		}
		r.Draw(out)
	}
	r.Notes = append(r.Notes, "distances, close pairs and reads twice: of the second half of the time")
	return nil
}

// distances adds what is known of scanners at a time, and in the mean of it.
func distances(row *report.Row, s clumping.Sample) {
	row.Add("mean distance", s.Mean, "least distance", s.Least, "close pairs, %", 100*s.Close, "read twice, %", 100*s.Twice)
}

// smoothed is how many points a line has at most: each is the mean of as many samples.
const smoothed = 60

func smooth(l report.Line) report.Line {
	out := report.Line{Name: l.Name}
	group := (len(l.X) + smoothed - 1) / smoothed
	for from := 0; from < len(l.X); from += group {
		to := min(from+group, len(l.X))
		out.X, out.Y = append(out.X, mean(l.X[from:to])), append(out.Y, mean(l.Y[from:to]))
	}
	return out
}

// mean is 0 of nothing.
func mean(values []float64) float64 {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}
