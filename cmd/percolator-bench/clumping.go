package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/clumping"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/plot"
)

func newBenchClumping() *cobra.Command {
	cfg := clumping.Default()
	var shared benchFlags
	cmd := &cobra.Command{
		Use:   "clumping",
		Short: "Simulate how the scanners of workers spread over a table, and what they do twice",
		Long: `Simulate workers that search a table for notifications, with the code that scanners
run and in virtual time: the table, the queues, and the time that requests and
observers take are models. Rows become dirty anywhere; in two regions observers are
slow. The same load is given to every way to search: with teleporting and without,
with row locks and without, and with the table divided among the workers. What comes
out depends on the flags alone, not on the machine.

A pair of scanners is close when less than a hundredth of the table lies between them;
of scanners at random places 2 % are, and their mean distance is 0.25. A row is read
twice when another scanner has read it since it became dirty. A run is wasted when
another worker had already run for the same change.`,
		Example: `  percolator-bench clumping
  percolator-bench clumping --duration 1m --seed 7 -o json
  percolator-bench clumping --plot charts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return benchClumping(cmd, cfg, shared) },
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Workers, "workers", cfg.Workers, "workers")
	flags.IntVar(&cfg.Scanners, "scanners", cfg.Scanners, "scanners of each worker; 64 in all at most")
	flags.IntVar(&cfg.Concurrency, "concurrency", cfg.Concurrency, "runs at once on each worker")
	flags.IntVar(&cfg.Rows, "rows", cfg.Rows, "rows of the table")
	flags.IntVar(&cfg.Tablets, "tablets", cfg.Tablets, "tablets of the table")
	flags.Float64Var(&cfg.Writes, "writes", cfg.Writes, "rows that become dirty a second")
	flags.DurationVar(&cfg.Run, "run", cfg.Run, "time that an observer takes")
	flags.Float64Var(&cfg.Slow, "slow", cfg.Slow, "share of the table in which observers are slow")
	flags.Float64Var(&cfg.SlowBy, "slow-by", cfg.SlowBy, "how many times longer they take there")
	flags.DurationVar(&cfg.Tablet, "tablet", cfg.Tablet, "time to read through a tablet without dirty rows")
	flags.DurationVar(&cfg.Duration, "duration", cfg.Duration, "simulated time")
	flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of everything that is left to chance")
	shared.add(cmd)
	shared.addPlot(cmd)
	return cmd
}

func benchClumping(cmd *cobra.Command, cfg clumping.Config, shared benchFlags) error {
	errs := []error{
		shared.check(), within("workers", cfg.Workers, 1, clumping.MaxScanners), within("scanners", cfg.Scanners, 1, clumping.MaxScanners),
		within("workers times --scanners", cfg.Workers*cfg.Scanners, 1, clumping.MaxScanners), within("concurrency", cfg.Concurrency, 1, 10_000),
		within("rows", cfg.Rows, 1000, 10_000_000), within("tablets", cfg.Tablets, 1, cfg.Rows), within("writes", cfg.Writes, 0, 1e6),
		within("slow", cfg.Slow, 0, 1), within("slow-by", cfg.SlowBy, 1, 1e6), withinTime("run", cfg.Run), withinTime("tablet", cfg.Tablet),
		withinTime("duration", cfg.Duration),
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cfg.Every = min(cfg.Every, cfg.Duration)
	progress, done := showProgress(cmd)
	report, err := bench.Clumping(cmd.Context(), cfg, progress)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotClumping(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printClumping(w, report) })
}

func withinTime(flag string, d time.Duration) error {
	if d < time.Millisecond || d > 24*time.Hour {
		return usagef("--%s %v is not between 1 ms and 24 h", flag, d)
	}
	return nil
}

func printClumping(w io.Writer, r *bench.ClumpingReport) error {
	c := r.Config
	_, _ = fmt.Fprintf(w, "%d workers with %d scanners each on %d rows, %.0f writes/s, %v simulated; distances as shares of the table\n\n",
		c.Workers, c.Scanners, c.Rows, c.Writes, c.Duration)
	rows := []string{"\tmean distance\tleast\tclose pairs %\trow reads\tread twice %\truns\twasted %\tdirty for s\tteleports"}
	for _, v := range r.Variants {
		rows = append(rows, fmt.Sprintf("%s\t%.3f\t%.4f\t%.1f\t%d\t%.1f\t%d\t%.1f\t%.2f\t%d",
			v.Name, v.Mean, v.Least, 100*v.Close, v.Reads, 100*v.Twice, v.Runs, 100*v.Wasted, v.Waited, v.Teleports))
	}
	printBlock(w, rows...)
	_, err := fmt.Fprintln(w, "distances, close pairs and reads twice: of the second half of the time")
	return err
}

// plotClumping draws the distances and what was read twice, over time.
func plotClumping(dir string, r *bench.ClumpingReport) error {
	for _, c := range []struct {
		file, title, axis string
		top               float64
		mark              float64
		value             func(clumping.Sample) float64
	}{
		{"clumping-distance", "Scanners: mean distance of two", "mean distance, share of the table", 0.5, 0.25, func(s clumping.Sample) float64 { return s.Mean }},
		{"clumping-close", "Scanners: pairs that are close", "pairs less than 1 % of the table apart, %", 0, 2, func(s clumping.Sample) float64 { return 100 * s.Close }},
		{"clumping-least", "Scanners: least distance of two", "least distance, share of the table", 0, 0, func(s clumping.Sample) float64 { return s.Least }},
		{"clumping-twice", "Scanners: rows that another one had read", "rows read twice, %", 100, 0, func(s clumping.Sample) float64 { return 100 * s.Twice }},
	} {
		chart := plot.Chart{Title: c.title, X: plot.Axis{Label: "time, s"}, Y: plot.Axis{Label: c.axis, Max: c.top}}
		if c.mark > 0 {
			chart.Marks = []plot.Mark{{At: c.mark, Name: "random places", Horizontal: true}}
		}
		var lines []plot.Line
		for _, v := range r.Variants {
			lines = append(lines, smooth(v, c.value))
		}
		f, err := plot.Lines(chart, lines...)
		if err != nil {
			return err
		}
		if err := f.Save(dir, c.file); err != nil {
			return err
		}
	}
	return nil
}

// smoothed is how many points a line has at most: each is the mean of as many samples.
const smoothed = 60

func smooth(v clumping.Result, value func(clumping.Sample) float64) plot.Line {
	line := plot.Line{Name: v.Name}
	group := (len(v.Samples) + smoothed - 1) / smoothed
	for from := 0; from < len(v.Samples); from += group {
		samples := v.Samples[from:min(from+group, len(v.Samples))]
		x, y := 0., 0.
		for _, s := range samples {
			x += s.Seconds / float64(len(samples))
			y += value(s) / float64(len(samples))
		}
		line.X, line.Y = append(line.X, x), append(line.Y, y)
	}
	return line
}
