package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

func newBenchFig8() *cobra.Command {
	cfg := bench.Fig8Config{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "fig8",
		Short: "Measure what transactions cost over raw Bigtable: Figure 8 of the paper, and beyond",
		Long: `Compare operations of transactions with raw requests to the same Bigtable emulator:

  get, get-batched              Get against ReadRow, batching of reads off and on. A
                                snapshot is had for 64 Gets of different rows; each
                                goroutine has its own. ReadRow names no column: rows
                                hold one cell.
  get-cell, get-cell-batched    the same against a ReadRow that asks for what Get asks
                                for: the newest cell of a family and column
  begin-get, begin-get-batched  the same with a Begin for each Get
  write, write-limit            a transaction that sets one cell against MutateRow, and
                                against two CheckAndMutateRow with the predicates and
                                mutations of the protocol: the limit of such a write
  blind, blind-limit            the same with Blind
  rows10, rows10-at-once        a transaction that sets a cell in each of ten rows,
                                against ten MutateRow one after another, and at once

Both sides take turns in short slices, on as many connections each; the ratio is that of
two neighbouring slices, of which a repetition has the median. Raw writes set the same
cell timestamp again and again. Rows of transactions get a new version with each write;
old ones are erased between slices when rows have been written once on average. What is
committed in the background is waited for within the slice. Values are compared when
they are read, and written ones are read back by sample.

Garbage is collected whenever Go does so. CPU time and allocations are those of this
process: the oracle runs in it, and so does the embedded emulator; with gcloud's they
are the client's and the oracle's.`,
		Example: `  percolator-bench fig8
  percolator-bench fig8 --emulator gcloud --plot charts
  percolator-bench fig8 --only get,write-limit --goroutines 64 --short`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shortenFig8(cmd, &cfg)
			}
			return benchFig8(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Goroutines, "goroutines", []int{1, 16, 64, 256}, "goroutines that work at once")
	flags.StringSliceVar(&cfg.Only, "only", nil, "comparisons to make (default all)")
	flags.IntVar(&cfg.Rows, "rows", 32_768, "rows of each table; 64 for each goroutine at least")
	flags.IntVar(&cfg.Value, "value", 100, "bytes of a value")
	flags.DurationVar(&cfg.Slice, "slice", 200*time.Millisecond, "how long one side works before it is the other's turn")
	flags.DurationVar(&cfg.Duration, "duration", 3*time.Second, "how long a repetition of each comparison takes, both sides together")
	flags.IntVar(&cfg.Repeat, "repeat", 3, "repetitions")
	flags.BoolVar(&short, "short", false, "a look in some seconds: shorter, with fewer rows and goroutines, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	return cmd
}

// shortenFig8 sets what was not given to values for a quick look.
func shortenFig8(cmd *cobra.Command, cfg *bench.Fig8Config) {
	given := cmd.Flags().Changed
	if !given("goroutines") {
		cfg.Goroutines = []int{64}
	}
	if !given("rows") {
		cfg.Rows = max(4096, bench.Fig8SnapshotGets*slices.Max(cfg.Goroutines))
	}
	if !given("slice") {
		cfg.Slice = 50 * time.Millisecond
	}
	if !given("duration") {
		cfg.Duration = 300 * time.Millisecond
	}
	if !given("repeat") {
		cfg.Repeat = 1
	}
}

func benchFig8(cmd *cobra.Command, cfg bench.Fig8Config, shared benchFlags) error {
	cfg.Emulator = shared.emulator
	errs := []error{
		shared.check(), within("value", cfg.Value, 8, 1<<20), within("rows", cfg.Rows, 64, 10_000_000), within("repeat", cfg.Repeat, 1, 1000),
		within("goroutines", len(cfg.Goroutines), 1, 100), withinTime("slice", cfg.Slice), withinTime("duration", cfg.Duration),
	}
	for _, n := range cfg.Goroutines {
		errs = append(errs, within("goroutines", n, 1, 10_000), within("rows", cfg.Rows, bench.Fig8SnapshotGets*n, 10_000_000))
	}
	for _, name := range cfg.Only {
		if names := bench.Fig8Names(); !slices.Contains(names, name) {
			errs = append(errs, usagef("--only %q is none of %s", name, strings.Join(names, ", ")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Fig8(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotFig8(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printFig8(w, report) })
}

func printFig8(w io.Writer, r *bench.Fig8Report) error {
	_, _ = fmt.Fprintf(w, "ours against raw Bigtable: %s, %s, %d CPUs; %d rows with %d bytes, "+
		"%d repetitions of %.0f ms in slices of %.0f ms\n\n",
		r.Emulator, r.GoVersion, r.CPUs, r.Rows, r.Value, r.Repeat, r.DurationMS, r.SliceMS)
	ratios := []string{"\tgoroutines\tours/s\traw/s\tratio\tmin\tmax\toverall\tby CPU\tagainst"}
	costs := []string{"for each operation of ours\tgoroutines\tstorage requests\toracle\tCPU µs\traw\tallocations\traw\tKiB\traw"}
	checks := []string{"\tgoroutines\toperations\traw\tvalues verified\tconflicts\twrites of a row\tmost"}
	for _, m := range r.Measurements {
		head := fmt.Sprintf("%s\t%d", m.Name, m.Goroutines)
		ratios = append(ratios, fmt.Sprintf("%s\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%s", head,
			m.OursPerSecond.Median, m.RawPerSecond.Median, m.Ratio.Median, m.Ratio.Min, m.Ratio.Max, m.Overall.Median, m.ByCPU, m.Raw))
		o, raw := m.OursCost, m.RawCost
		costs = append(costs, fmt.Sprintf("%s\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f", head,
			m.Storage, m.Requests["Oracle"], o.CPU, raw.CPU, o.Allocs, raw.Allocs, o.Bytes/1024, raw.Bytes/1024))
		checks = append(checks, fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%.2f\t%d", head,
			o.Operations, raw.Operations, m.Verified, m.Conflicts, m.WritesPerRow, m.MostWrites))
	}
	printBlock(w, ratios...)
	printBlock(w, costs...)
	printBlock(w, checks...)
	whose := "without the emulator's"
	if r.Together {
		whose = "the emulator's included"
	}
	_, err := fmt.Fprintf(w, "ratio: median of neighbouring slices, overall: all operations by all time, by CPU: CPU time of raw by ours\n"+
		"an operation of rows10 is ten rows on both sides\n"+
		"get: a snapshot, got from the oracle in this process, for each %d Gets; CPU and allocations are this process's, %s\n",
		r.SnapshotGets, whose)
	return err
}
