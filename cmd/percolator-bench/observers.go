package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
)

func newBenchObservers() *cobra.Command {
	cfg := bench.ObserversConfig{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "observers",
		Short: "Measure how soon observers react: from commit of a write to commit of its observer",
		Long: `Measure how long it takes from the commit of an observed write to the commit of its
observer, as both are told by the store, an emulator on this machine:

  in one process   writers and a worker share a client. First the saturated rate: each
                   writer writes again as soon as its observer has committed. Then
                   half of that rate is offered, at random moments that do not
                   depend on what becomes of earlier writes.
  a chain          of observers in one worker, each hop with direct dispatch and
                   without, where the scan has to find it.
  processes        writer, workers and store in processes of their own; a table of
                   clean rows, of which some become dirty at random moments.`,
		Example: `  percolator-bench observers
  percolator-bench observers --short -o json
  percolator-bench observers --plot charts --clean 100000 --dirty 100 --workers 2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shorten(cmd, &cfg)
			}
			return benchObservers(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&cfg.Duration, "duration", 9*time.Second, "how long writes are offered; the other measurements take parts of it")
	flags.IntSliceVar(&cfg.Writers, "writers", []int{16, 64, 256}, "writers that find the saturated rate")
	flags.IntVar(&cfg.Hops, "hops", 5, "length of the chain")
	flags.Float64Var(&cfg.Chains, "chains", 20, "chains begun a second")
	flags.IntVar(&cfg.Clean, "clean", 100_000, "clean rows of the table across processes (0: leave that out)")
	flags.IntVar(&cfg.Dirty, "dirty", 100, "rows that become dirty in each round")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "rounds")
	flags.IntVar(&cfg.Workers, "workers", 1, "processes with a worker")
	flags.DurationVar(&cfg.Idle, "idle", 3*time.Second, "how long nothing happens before each round")
	flags.DurationVar(&cfg.ScanInterval, "scan-interval", 0, "pause between two searches by a scanner of those workers (0: adaptive)")
	flags.BoolVar(&cfg.ScanOnly, "scan-only", false, "those workers hear nothing from the writer: the scan has to find everything")
	flags.BoolVar(&short, "short", false, "a look in some seconds: shorter, with fewer rows, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	cmd.AddCommand(newBenchStore(), newBenchWriter(), newBenchWorker())
	return cmd
}

// shorten sets what was not given to values for a quick look.
func shorten(cmd *cobra.Command, cfg *bench.ObserversConfig) {
	given := cmd.Flags().Changed
	if !given("duration") {
		cfg.Duration = 2 * time.Second
	}
	if !given("writers") {
		cfg.Writers = []int{64}
	}
	if !given("clean") {
		cfg.Clean = 10_000
	}
	if !given("rounds") {
		cfg.Rounds = 1
	}
	if !given("idle") {
		cfg.Idle = time.Second
	}
}

// The parts of the benchmark that run in processes of their own.

func newBenchStore() *cobra.Command {
	return &cobra.Command{
		Use: "store", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ObserverStore(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newBenchWriter() *cobra.Command {
	var at bench.StoreAddresses
	cmd := &cobra.Command{
		Use: "writer", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ObserverWriter(cmd.Context(), at, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	addAddresses(cmd, &at)
	return cmd
}

func newBenchWorker() *cobra.Command {
	var at bench.StoreAddresses
	var interval time.Duration
	var scanOnly bool
	cmd := &cobra.Command{
		Use: "worker", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ObserverWorker(cmd.Context(), at, interval, scanOnly, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	addAddresses(cmd, &at)
	cmd.Flags().DurationVar(&interval, "scan-interval", 0, "pause between searches")
	cmd.Flags().BoolVar(&scanOnly, "scan-only", false, "hear of nothing but what the scan finds")
	return cmd
}

func addAddresses(cmd *cobra.Command, at *bench.StoreAddresses) {
	cmd.Flags().StringVar(&at.Bigtable, "bigtable", "", "the emulator")
	cmd.Flags().StringVar(&at.Oracle, "tso", "", "the oracle")
}

func benchObservers(cmd *cobra.Command, cfg bench.ObserversConfig, shared benchFlags) error {
	errs := []error{
		shared.check(),
		within("hops", cfg.Hops, 1, 50), within("chains", cfg.Chains, 0.1, 10_000),
		within("clean", cfg.Clean, 0, 10_000_000), within("dirty", cfg.Dirty, 1, 100_000), within("rounds", cfg.Rounds, 1, 1000),
		within("workers", cfg.Workers, 1, 64), within("writers", len(cfg.Writers), 1, 100),
	}
	for _, n := range cfg.Writers {
		errs = append(errs, within("writers", n, 1, 10_000))
	}
	if cfg.Duration < 10*time.Millisecond || cfg.Duration > time.Hour || min(cfg.Idle, cfg.ScanInterval) < 0 || max(cfg.Idle, cfg.ScanInterval) > time.Hour {
		errs = append(errs, usagef("--duration %v is not between 10 ms and 1 h, or --idle %v or --scan-interval %v not between 0 and 1 h", cfg.Duration, cfg.Idle, cfg.ScanInterval))
	}
	if cfg.Clean > 0 && cfg.Dirty*cfg.Rounds > cfg.Clean {
		errs = append(errs, usagef("--clean %d are fewer than --dirty %d in --rounds %d", cfg.Clean, cfg.Dirty, cfg.Rounds))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self = []string{self, "observers"}
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Observers(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotObservers(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printObservers(w, report) })
}

func printObservers(w io.Writer, r *bench.ObserversReport) error {
	_, _ = fmt.Fprintf(w, "from commit of a write to commit of its observer: %s, %d CPUs\n\n", r.GoVersion, r.CPUs)
	const head = "\tn\tp50 ms\tp90 ms\tp99 ms\tmax ms"
	line := func(name string, s bench.Spread) string {
		return fmt.Sprintf("%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f", name, s.Count, s.P50, s.P90, s.P99, s.Max)
	}
	rates := []string{"writers\twrites and runs/s"}
	for _, s := range r.InProcess.Saturated {
		rates = append(rates, fmt.Sprintf("%d\t%.0f", s.Writers, s.PerSecond))
	}
	printBlock(w, rates...)
	_, _ = fmt.Fprintf(w, "in one process, %.0f writes/s offered, %.0f delivered\n", r.InProcess.Offered, r.InProcess.Delivered)
	printBlock(w, head, line("observed", r.InProcess.Latency), line("by timestamps", r.InProcess.Timestamps))
	for _, c := range r.Chain {
		_, _ = fmt.Fprintf(w, "a chain of %d, %s\n", len(c.Hops), chainName(c))
		rows := []string{head}
		for i, h := range c.Hops {
			rows = append(rows, line(fmt.Sprintf("hop %d", i+1), h))
		}
		printBlock(w, append(rows, line("whole", c.Whole))...)
	}
	p := r.Processes
	if p == nil {
		return nil
	}
	_, _ = fmt.Fprintf(w, "across processes, %d clean rows (%.0f ms to look at all), %d dirty ones in each round, %d with a worker\n", p.Clean, p.Pass, p.Dirty, p.Workers)
	rows := []string{head}
	for i, s := range p.Rounds {
		rows = append(rows, line(fmt.Sprintf("round %d", i+1), s))
	}
	printBlock(w, append(rows, line("all", p.Latency))...)
	_, _ = fmt.Fprintf(w, "%d rows heard of from the writer, %d found by a scan first\n", p.Hinted, p.Found)
	if p.Lost > 0 {
		_, _ = fmt.Fprintf(w, "%d dirty rows were not run for\n", p.Lost)
	}
	return nil
}

func chainName(c bench.Chain) string {
	if c.Dispatch {
		return "direct dispatch"
	}
	return "scan only"
}

// drawable raises to 0.01 ms what a logarithmic axis cannot show: an observer may have committed before the writer heard of its own commit.
func drawable(samples []float64) []float64 {
	out := make([]float64, len(samples))
	for i, ms := range samples {
		out[i] = max(ms, 0.01)
	}
	return out
}

// plotObservers draws the distributions, and the chain hop by hop.
func plotObservers(dir string, r *bench.ObserversReport) error {
	latency := plot.Axis{Label: "from commit of a write to commit of its observer, ms", Log: true}
	inProcess, err := plot.CDF(plot.Chart{
		Title: fmt.Sprintf("Observers in one process at half the saturated rate (%.0f/s)", r.InProcess.Offered), X: latency,
		Marks: []plot.Mark{{At: 5, Name: "goal for the median"}, {At: 50, Name: "goal for p99"}},
	}, plot.Distribution{Samples: drawable(r.InProcess.Latency.Samples)})
	if err != nil {
		return err
	}
	var hops []plot.Line
	for _, c := range r.Chain {
		l := plot.Line{Name: chainName(c), Points: true}
		total := 0.0
		for i, h := range c.Hops {
			total += h.P50
			l.X, l.Y = append(l.X, float64(i+1)), append(l.Y, total)
		}
		hops = append(hops, l)
	}
	chain, err := plot.Lines(plot.Chart{Title: "A chain of observers in one worker", X: plot.Axis{Label: "hop"},
		Y: plot.Axis{Label: "sum of the hops' medians, ms", Log: true}}, hops...)
	if err != nil {
		return err
	}
	figures := map[string]*plot.Figure{"observers-in-process": inProcess, "observers-chain": chain}
	if p := r.Processes; p != nil {
		if figures["observers-across-processes"], err = plot.CDF(plot.Chart{
			Title: fmt.Sprintf("Observers in another process: %d clean rows, %d dirty", p.Clean, p.Dirty), X: latency,
			Marks: []plot.Mark{{At: 1000, Name: "goal for p99"}},
		}, plot.Distribution{Samples: drawable(p.Latency.Samples)}); err != nil {
			return err
		}
	}
	for name, f := range figures {
		if err := f.Save(dir, name); err != nil {
			return err
		}
	}
	return nil
}
