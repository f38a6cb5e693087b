package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
	"github.com/gopercolator/percolator/internal/webindex/index"
)

func newBenchGoals() *cobra.Command {
	cfg := bench.GoalsConfig{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "goals",
		Short: "Measure everything for which there is a goal, and say which are met",
		Long: `Measure the ratios of fig8, the multiples of latency and the counts of ops for which a
goal is set, and print each beside its goal and what the paper or a peer has. A goal is
met by the median of the repetitions; of a count, by the greatest.

The machine should be idle: what else runs takes processors from both sides of a ratio,
but not in equal parts.`,
		Example: `  percolator-bench goals
  percolator-bench goals --emulator gcloud --repeat 5 -o json
  percolator-bench goals --short --plot charts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shortenGoals(cmd, &cfg)
			}
			return benchGoals(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Repeat, "repeat", 3, "repetitions")
	flags.DurationVar(&cfg.Duration, "duration", 3*time.Second, "how long a repetition of a comparison with raw requests takes")
	flags.DurationVar(&cfg.Slice, "slice", 200*time.Millisecond, "how long one side works before it is the other's turn")
	flags.IntVar(&cfg.Rows, "rows", 32_768, "rows of each table of the comparisons")
	flags.IntVar(&cfg.Iterations, "iterations", 100, "transactions of each kind in a repetition")
	flags.DurationVar(&cfg.Delay, "delay", 5*time.Millisecond, "added to each request where latencies are measured and requests counted")
	flags.StringSliceVar(&cfg.Only, "only", nil, "parts to measure: ratios, latency, ops (default all)")
	flags.IntVar(&cfg.Pages, "pages", 258, "pages of the web index")
	flags.DurationVar(&cfg.Collapse, "collapse", index.Collapse, "how long the web index's observers behind the first wait for further reasons to run")
	flags.BoolVar(&short, "short", false, "a look in some seconds, without the web index, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	return cmd
}

// shortenGoals sets what was not given to values for a quick look.
func shortenGoals(cmd *cobra.Command, cfg *bench.GoalsConfig) {
	given := cmd.Flags().Changed
	if !given("repeat") {
		cfg.Repeat = 1
	}
	if !given("duration") {
		cfg.Duration = 300 * time.Millisecond
	}
	if !given("slice") {
		cfg.Slice = 50 * time.Millisecond
	}
	if !given("rows") {
		cfg.Rows = 4096
	}
	if !given("iterations") {
		cfg.Iterations = 10
	}
	if !given("delay") {
		cfg.Delay = 2 * time.Millisecond
	}
	if !given("only") {
		cfg.Only = []string{bench.GoalRatios, bench.GoalLatency}
	}
}

func benchGoals(cmd *cobra.Command, cfg bench.GoalsConfig, shared benchFlags) error {
	errs := []error{shared.check(), within("repeat", cfg.Repeat, 1, 100), within("rows", cfg.Rows, 64, 10_000_000),
		within("iterations", cfg.Iterations, 1, 100_000), within("pages", cfg.Pages, 1, 1_000_000)}
	for _, part := range cfg.Only {
		if !slices.Contains(bench.GoalParts(), part) {
			errs = append(errs, usagef("--only %s is none of %q", part, bench.GoalParts()))
		}
	}
	if cfg.Slice < time.Millisecond || cfg.Duration < 2*cfg.Slice || cfg.Duration > time.Hour {
		errs = append(errs, usagef("--slice %v is less than 1 ms, or --duration %v does not hold two of them, or is more than 1 h", cfg.Slice, cfg.Duration))
	}
	if cfg.Delay < 0 || cfg.Delay > time.Second || cfg.Collapse < 0 || cfg.Collapse > time.Minute {
		errs = append(errs, usagef("--delay %v is not between 0 and 1 s, or --collapse %v not between 0 and 1 min", cfg.Delay, cfg.Collapse))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cfg.Emulator = shared.emulator
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Goals(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotGoals(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printGoals(w, report) })
}

func printGoals(w io.Writer, r *bench.GoalsReport) error {
	_, _ = fmt.Fprintf(w, "goals, on the %s emulator: %s, %d CPUs, %s\n\n", r.Emulator, r.GoVersion, r.CPUs, r.Date)
	rows := []string{"\tpeer\tgoal\tmin\tmedian\tmax\t"}
	met := 0
	for _, g := range r.Goals {
		sign, verdict := "≤", "missed"
		if g.AtLeast {
			sign = "≥"
		}
		if g.Met {
			verdict = "met"
			met++
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s %.4g\t%.2f\t%.2f\t%.2f\t%s", g.Name, g.Peer, sign, g.Wanted, g.Measured.Min, g.Measured.Median, g.Measured.Max, verdict))
	}
	printBlock(w, rows...)
	costs := []string{"an operation costs this process\tCPU µs\traw\tallocations\traw\tKB\traw"}
	for _, c := range r.Costs {
		costs = append(costs, fmt.Sprintf("%s\t%.1f\t%.1f\t%.0f\t%.0f\t%.1f\t%.1f", c.Name, c.Ours.CPU, c.Raw.CPU, c.Ours.Allocs, c.Raw.Allocs, c.Ours.Bytes/1024, c.Raw.Bytes/1024))
	}
	if len(r.Costs) > 0 {
		printBlock(w, costs...)
	}
	if r.Ops != nil {
		with, without := r.Ops.Variants[len(r.Ops.Variants)-1].Load, r.Ops.Variants[0].Load
		_, _ = fmt.Fprintf(w, "web index, %d pages: %.1f reads a page with batching and prefetch, %.1f without; all requests %.1f and %.1f\n\n", r.Ops.Pages,
			with.PerPage(with.Requests["ReadRows"]), without.PerPage(without.Requests["ReadRows"]), with.PerPage(with.TotalRequests()), without.PerPage(without.TotalRequests()))
	}
	_, _ = fmt.Fprintf(w, "%d of %d goals are met\n", met, len(r.Goals))
	return nil
}

// plotGoals draws how far each goal is exceeded: 1 is the goal, more is better.
func plotGoals(dir string, r *bench.GoalsReport) error {
	var names []string
	var values []float64
	for i, g := range r.Goals {
		v := g.Measured.Median / g.Wanted
		if !g.AtLeast {
			v = g.Wanted / g.Measured.Median
		}
		names, values = append(names, fmt.Sprint(i+1)), append(values, v)
	}
	f, err := plot.BarChart(plot.Chart{Title: "Goals, in the order of the table", Y: plot.Axis{Label: "measured by goal; more is better"},
		Marks: []plot.Mark{{At: 1, Horizontal: true, Name: "goal"}}}, names, plot.Bars{Values: values})
	if err != nil {
		return err
	}
	return f.Save(dir, "goals")
}
