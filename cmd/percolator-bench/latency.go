package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
)

func newBenchLatency() *cobra.Command {
	cfg := bench.LatencyConfig{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure how many request times a transaction takes",
		Long: `Measure how long transactions take when every request to the store and every request
for a timestamp takes --delay longer, as over a network: in multiples of the time of one
raw request (ReadRow and MutateRow of one cell, the mean of both) under the same delay.
The raw requests are sent between the transactions; both by one goroutine.

The last kind of transaction reads a cell with a lock that was left by a client that died
right after its commit point.

Requests are counted on the wire, of ten transactions of each kind, phase two included; a
transaction does not wait for phase two, so the time is without it. A pause is a little longer
than what was asked for, by the same for everybody. The oracle, with its record in memory, is
reached over gRPC, as the store is. What was written is read back in the end.`,
		Example: `  percolator-bench latency
  percolator-bench latency --delay 20ms --repeat 5 -o json
  percolator-bench latency --emulator gcloud --plot charts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			if short && !given("iterations") {
				cfg.Iterations = 10
			}
			if short && !given("repeat") {
				cfg.Repeat = 1
			}
			return benchLatency(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&cfg.Delay, "delay", 5*time.Millisecond, "added to each request")
	flags.IntVar(&cfg.Iterations, "iterations", 100, "transactions of each kind in a repetition")
	flags.IntVar(&cfg.Repeat, "repeat", 3, "repetitions")
	flags.BoolVar(&short, "short", false, "a look in some seconds: 10 transactions, once, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	return cmd
}

func benchLatency(cmd *cobra.Command, cfg bench.LatencyConfig, shared benchFlags) error {
	errs := []error{shared.check(), within("iterations", cfg.Iterations, 1, 100_000), within("repeat", cfg.Repeat, 1, 1000)}
	if cfg.Delay < 0 || cfg.Delay > time.Second {
		errs = append(errs, usagef("--delay %v is not between 0 and 1 s", cfg.Delay))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cfg.Emulator = shared.emulator
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Latency(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotLatency(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printLatency(w, report) })
}

func printLatency(w io.Writer, r *bench.LatencyReport) error {
	_, _ = fmt.Fprintf(w, "transactions in request times: %s, %d CPUs, %s, %.1f ms added to each request, %d × %d of each kind\n\n",
		r.GoVersion, r.CPUs, r.Emulator, r.Delay, r.Repeat, r.Iterations)
	raw := func(name string, s bench.Summary) string {
		return fmt.Sprintf("%s\t%.2f\t%.2f\t%.2f", name, s.Min, s.Median, s.Max)
	}
	printBlock(w, "ms\tmin\tmedian\tmax", raw("raw ReadRow", r.RawRead), raw("raw MutateRow", r.RawMutate))
	rows := []string{"request times\tmin\tmedian\tmax\tgoal\tms"}
	requests := []string{"requests\tReadRows\tCheckAndMutateRow\tMutateRows\tstorage\tgoal\toracle"}
	for _, t := range r.Transactions {
		goal, storage := "", ""
		if t.Goal > 0 {
			goal = fmt.Sprintf("%.1f", t.Goal)
		}
		if t.Requests.StorageGoal > 0 {
			storage = fmt.Sprint(t.Requests.StorageGoal)
		}
		q, m := t.Requests, t.Multiple
		rows = append(rows, fmt.Sprintf("%s\t%.2f\t%.2f\t%.2f\t%s\t%.1f", t.Name, m.Min, m.Median, m.Max, goal, t.Milliseconds.Median))
		requests = append(requests, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s",
			t.Name, q.ReadRows, q.CheckAndMutateRow, q.MutateRows, q.Storage, storage, q.Oracle))
	}
	printBlock(w, rows...)
	printBlock(w, requests...)
	for _, t := range r.Transactions {
		if t.AtHand != nil {
			_, _ = fmt.Fprintf(w, "%s: %.1f %% waited for the commit timestamp only; %.1f timestamps fetched ahead by each\n",
				t.Name, 100**t.AtHand, *t.Ahead)
		}
	}
	_, err := fmt.Fprintf(w, "%d cells read back\n", r.Verified)
	return err
}

// latencyLabels are short for what has no room under a bar.
var latencyLabels = []string{"get", "set", "set, blind", "get, set 2", "set 10", "set 10, blind", "past a lock"}

// plotLatency draws a bar for each kind of transaction, with the goal beside it where there is one.
func plotLatency(dir string, r *bench.LatencyReport) error {
	measured, goals := latencyBars(r)
	chart, err := plot.BarChart(plot.Chart{
		Title: fmt.Sprintf("Transactions with %.0f ms added to each request", r.Delay),
		Y:     plot.Axis{Label: "times one raw request"},
	}, latencyLabels[:len(r.Transactions)], measured, goals)
	if err != nil {
		return err
	}
	return chart.Save(dir, "latency")
}

func latencyBars(r *bench.LatencyReport) (measured, goals plot.Bars) {
	measured.Name, goals.Name = "measured", "goal (at most)"
	for _, t := range r.Transactions {
		measured.Values, goals.Values = append(measured.Values, t.Multiple.Median), append(goals.Values, t.Goal)
	}
	return measured, goals
}
