package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
	"github.com/gopercolator/percolator/internal/webindex/index"
)

func newBenchOps() *cobra.Command {
	cfg := bench.OpsConfig{}
	var shared benchFlags
	var short, detail bool
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "Count the web index's requests to Bigtable, with and without batching and prefetch",
		Long: `Count the requests to Bigtable that the web index makes for a page: its pages are loaded
while a worker runs, until the observers are idle, and once more when some of them have changed.
All of it four times, with batching and prefetch and without. In the end each index
is compared with what its pages say.

Without batching a request reads one row, without prefetch one column; with neither, each cell
that a transaction asks for is a request of its own, unless the transaction has read it before. Scans, the
change that an observer reads with its acknowledgment, and a worker's search for notifications are the same in
all. Reads travel together if they meet: fewer of them do without --delay, which an emulator on this
machine lacks, or with a small --concurrency.

Pages are those of the crawl that comes with webindex and, beyond these, made up ones.`,
		Example: `  percolator-bench ops
  percolator-bench ops --pages 2000 --changed 100 --detail
  percolator-bench ops --short -o json --plot charts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shortenOps(cmd, &cfg)
			}
			return benchOps(cmd, cfg, shared, detail)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Pages, "pages", 258, "pages of the crawl")
	flags.IntVar(&cfg.Changed, "changed", 25, "documents among them that have changed the second time")
	flags.DurationVar(&cfg.Delay, "delay", 5*time.Millisecond, "added to each request to the store and to the oracle")
	flags.IntVar(&cfg.Concurrency, "concurrency", 128, "runs of observers under way at once")
	flags.DurationVar(&cfg.Collapse, "collapse", index.Collapse, "how long observers behind the first wait for further reasons to run")
	flags.BoolVar(&short, "short", false, "a look in some seconds: 15 pages and short waits, where flags do not say otherwise")
	flags.BoolVar(&detail, "detail", false, "list the reads by table and columns")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	return cmd
}

// shortenOps sets what was not given to values for a quick look.
func shortenOps(cmd *cobra.Command, cfg *bench.OpsConfig) {
	given := cmd.Flags().Changed
	if !given("pages") {
		cfg.Pages = 15
	}
	if !given("changed") {
		cfg.Changed = min(2, cfg.Pages)
	}
	if !given("delay") {
		cfg.Delay = time.Millisecond
	}
	if !given("collapse") {
		cfg.Collapse = 10 * time.Millisecond
	}
}

func benchOps(cmd *cobra.Command, cfg bench.OpsConfig, shared benchFlags, detail bool) error {
	errs := []error{shared.check(), within("pages", cfg.Pages, 1, 1_000_000), within("changed", cfg.Changed, 0, cfg.Pages),
		within("concurrency", cfg.Concurrency, 1, 10_000)}
	if min(cfg.Delay, cfg.Collapse) < 0 || cfg.Delay > time.Second || cfg.Collapse > time.Minute {
		errs = append(errs, usagef("--delay %v is not between 0 and 1 s, or --collapse %v not between 0 and 1 min", cfg.Delay, cfg.Collapse))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cfg.Emulator = shared.emulator
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Ops(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotOps(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printOps(w, report, detail) })
}

func printOps(w io.Writer, r *bench.OpsReport, detail bool) error {
	_, _ = fmt.Fprintf(w, "requests of the web index to Bigtable: %s, %d CPUs, %s, %.1f ms added to each request, %d runs at once\n\n",
		r.GoVersion, r.CPUs, r.Emulator, r.Delay, r.Concurrency)
	load := func(v bench.OpsVariant) bench.OpsPhase { return v.Load }
	rerun := func(v bench.OpsVariant) bench.OpsPhase { return v.Rerun }
	_, _ = fmt.Fprintf(w, "%d pages loaded into an empty index, for each of them\n", r.Pages)
	printOpsPhase(w, r.Variants, load)
	printOpsRatio(w, r.Load)
	if r.Changed > 0 {
		_, _ = fmt.Fprintf(w, "%d changed ones among them, for each of these\n", r.Changed)
		printOpsPhase(w, r.Variants, rerun)
		printOpsRatio(w, r.Rerun)
	}
	if detail {
		for _, v := range r.Variants {
			printOpsDetail(w, v)
		}
	}
	_, err := fmt.Fprintln(w, "each index says what its pages say")
	return err
}

func opsName(v bench.OpsVariant) string {
	switch {
	case v.Batching && v.Prefetch:
		return "batching and prefetch"
	case v.Batching:
		return "batching"
	case v.Prefetch:
		return "prefetch"
	}
	return "neither"
}

func printOpsPhase(w io.Writer, variants []bench.OpsVariant, phase func(bench.OpsVariant) bench.OpsPhase) {
	requests := []string{"requests a page\tReadRows\tby key\tscans\tsearches\tCheckAndMutateRow\tMutateRows\tall\toracle"}
	work := []string{"\tobserver runs a page\trequests a run\tReadRows a run\trows a read by key\ts"}
	for _, v := range variants {
		p := phase(v)
		per := func(n int) string { return fmt.Sprintf("%.1f", p.PerPage(n)) }
		requests = append(requests, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", opsName(v),
			per(p.Requests["ReadRows"]), per(p.Reads["get"]), per(p.Reads["scan"]), per(p.Reads["search"]),
			per(p.Requests["CheckAndMutateRow"]), per(p.Requests["MutateRows"]), per(p.TotalRequests()), per(p.Oracle)))
		runs := float64(max(1, p.TotalRuns()))
		work = append(work, fmt.Sprintf("%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f", opsName(v), p.PerPage(int(p.TotalRuns())),
			float64(p.TotalRequests())/runs, float64(p.Requests["ReadRows"])/runs, p.RowsPerGet(), p.Seconds))
	}
	printBlock(w, requests...)
	printBlock(w, work...)
}

func printOpsRatio(w io.Writer, r bench.OpsRatio) {
	_, _ = fmt.Fprintf(w, "with both, against neither: 1/%.1f of the ReadRows a page (1/%.1f of those by key), 1/%.1f of the ReadRows a run, 1/%.2f of all requests\n\n",
		r.ReadRows, r.Gets, r.PerRun, r.All)
}

// printOpsDetail lists who reads, and who runs.
func printOpsDetail(w io.Writer, v bench.OpsVariant) {
	for _, p := range []struct {
		name  string
		phase bench.OpsPhase
	}{{"load", v.Load}, {"changed pages", v.Rerun}} {
		rows := []string{opsName(v) + ", " + p.name + "\tof\tcolumns\tReadRows a page\trows\tcells"}
		for _, o := range p.phase.Origins {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%.2f\t%d\t%d",
				o.Kind, o.Table, o.Columns, p.phase.PerPage(o.Requests), o.Rows, o.Cells))
		}
		printBlock(w, rows...)
		runs := []string{"observer\truns a page"}
		for _, name := range slices.Sorted(maps.Keys(p.phase.Runs)) {
			runs = append(runs, fmt.Sprintf("%s\t%.2f", name, p.phase.PerPage(int(p.phase.Runs[name]))))
		}
		printBlock(w, runs...)
	}
}

// plotOps draws the requests a page of each variant, by kind.
func plotOps(dir string, r *bench.OpsReport) error {
	categories := make([]string, len(r.Variants))
	kinds := []string{"ReadRows", "CheckAndMutateRow", "MutateRows"}
	bars := make([]plot.Bars, len(kinds))
	for i, kind := range kinds {
		bars[i].Name = kind
		for j, v := range r.Variants {
			categories[j] = opsName(v)
			bars[i].Values = append(bars[i].Values, v.Load.PerPage(v.Load.Requests[kind]))
		}
	}
	chart, err := plot.BarChart(plot.Chart{
		Title: fmt.Sprintf("Web index, %d pages loaded", r.Pages), Y: plot.Axis{Label: "requests to Bigtable a page"},
	}, categories, bars...)
	if err != nil {
		return err
	}
	return chart.Save(dir, "ops")
}
