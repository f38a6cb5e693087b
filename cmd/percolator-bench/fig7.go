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
)

// fig7Offered is how many documents may arrive in one measurement. It bounds the memory of the benchmark and of the emulator.
const fig7Offered = 500_000

func newBenchFig7() *cobra.Command {
	cfg := bench.Fig7Config{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "fig7",
		Short: "Measure how soon crawled documents are clustered, by observers and by batch passes",
		Long: `Measure how long it takes from when a document arrives until its cluster is committed,
at growing crawl rates (figure 7 of the paper). The documents of a repository are
clustered already. Each document has three clustering keys, drawn at random from as
many of each kind as there are documents in three quarters of the repository: clusters
then have 3.3 documents in the mean.

  observers  a transaction loads the document; an observer looks its keys up, puts
             it into the first cluster found, and enters the keys that are new.
  batch      a raw write loads the document; passes over the whole repository follow
             one another: read everything, group by each kind of key in turn, write
             what changed. A document is clustered when the first pass that began
             after it was loaded ends.

Documents arrive at random moments, the same for both, whatever becomes of those
before them; those that have to wait for a loader are loaded together. What both
stores hold in the end is compared with the same clustering in memory. What arrived is
removed before the next measurement.

Documents reach the observer by direct dispatch. The worker's scan, which finds what
that has lost, has to pass over the whole repository on an emulator, where Bigtable
would read notifications from a locality group of their own; so it runs seldom here
(--scan-interval), and once before documents arrive.

The batch is a fast one: raw requests without transactions, one reading of the
repository instead of one for each kind of key, grouping in memory, and none of the
fixed costs of a MapReduce, which in the paper are minutes. The repository is small:
a rate that is a small part of a billion documents an hour is many times this one.

When more than a tenth of the documents still wait at the end of the arrivals,
observers are saturated. The documents left over count with the time that they have
waited by then: latencies are lower bounds, and would grow with the duration. At the
crossover the medians of both are equal, interpolated between two rates on logarithmic
scales; or observers are saturated and batch passes are not, if that comes first.

At most 500,000 documents arrive in one measurement. Each has to end within five
minutes after its arrivals.`,
		Example: `  percolator-bench fig7
  percolator-bench fig7 --short -o json
  percolator-bench fig7 --documents 100000 --rates 100,1000,10000 --duration 20s --plot charts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			if short && !given("documents") {
				cfg.Documents = 4_000
			}
			if short && !given("rates") {
				cfg.Rates = []float64{100, 1000}
			}
			if short && !given("duration") {
				cfg.Duration = 500 * time.Millisecond
			}
			cfg.Emulator = shared.emulator
			return benchFig7(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Documents, "documents", 30_000, "documents of the repository")
	flags.Float64SliceVar(&cfg.Rates, "rates",
		[]float64{100, 200, 400, 800, 1600, 3200, 6400}, "documents that arrive a second")
	flags.DurationVar(&cfg.Duration, "duration", 4*time.Second, "how long documents arrive, at each rate and for each side")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "of keys and arrivals")
	flags.DurationVar(&cfg.ScanInterval, "scan-interval", 10*time.Second,
		"pause between two searches of the worker for notifications (0: adaptive)")
	flags.BoolVar(&short, "short", false,
		"a look in some seconds: shorter, with fewer documents and rates, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	return cmd
}

func benchFig7(cmd *cobra.Command, cfg bench.Fig7Config, shared benchFlags) error {
	errs := []error{
		shared.check(), within("documents", cfg.Documents, 100, 5_000_000), within("rates", len(cfg.Rates), 1, 50),
	}
	if cfg.Duration < 10*time.Millisecond || cfg.Duration > time.Hour {
		errs = append(errs, usagef("--duration %v is not between 10 ms and 1 h", cfg.Duration))
	}
	if cfg.ScanInterval < 0 || cfg.ScanInterval > time.Hour {
		errs = append(errs, usagef("--scan-interval %v is not between 0 and 1 h", cfg.ScanInterval))
	}
	for i, rate := range cfg.Rates {
		errs = append(errs, within("rates", rate, 0.1, 1e6))
		if i > 0 && rate <= cfg.Rates[i-1] {
			errs = append(errs, usagef("--rates %v do not ascend", cfg.Rates))
		}
		if n := rate * cfg.Duration.Seconds(); n > fig7Offered {
			errs = append(errs, usagef("--rates %v for --duration %v are more than %d documents", rate, cfg.Duration, fig7Offered))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Fig7(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotFig7(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printFig7(w, report) })
}

func printFig7(w io.Writer, r *bench.Fig7Report) error {
	_, _ = fmt.Fprintf(w, "from arrival of a document to commit of its cluster: %s, %d CPUs, %s\n", r.GoVersion, r.CPUs, r.Emulator)
	_, _ = fmt.Fprintf(w, "%d documents with three keys of %d each, %.2f in a cluster, %.0f %% not alone; arrivals for %.3g s\n\n",
		r.Documents, r.Keys, r.Cluster, 100*r.Duplicate, r.Duration)
	latency := []string{"\t\tobservers, ms\t\t\tbatch, ms\t\t", "arrivals/s\t%/hour\tp50\tp90\tmean\tp50\tp90\tmean"}
	work := []string{"\tobservers\t\t\t\tbatch\t\t\t\t\t",
		"offered\tdelivered/s\tleft\tconflicts\trequests\tdelivered/s\tpasses\tpass ms\tread each\trequests"}
	checked, different, bounds, growing := 0, 0, false, false
	for _, at := range r.Rates {
		o, b := at.Observers, at.Batch
		bound := ""
		if o.Saturated {
			bound, bounds = "≥ ", true
		}
		grows := ""
		if b.Saturated {
			grows, growing = "↗ ", true
		}
		latency = append(latency, fmt.Sprintf("%.4g\t%.4g\t%s%.2f\t%s%.2f\t%s%.2f\t%s%.2f\t%s%.2f\t%s%.2f",
			at.Rate, at.Percent, bound, o.Latency.P50, bound, o.Latency.P90, bound, o.Mean,
			grows, b.Latency.P50, grows, b.Latency.P90, grows, b.Mean))
		work = append(work, fmt.Sprintf("%d\t%.1f\t%d\t%d\t%d\t%.1f\t%d\t%.0f\t%d\t%d",
			o.Offered, o.Delivered, o.Offered-o.Clustered, o.Conflicts, fig7Total(o.Requests),
			b.Delivered, b.Passes, b.Pass.Median, b.Read, fig7Total(b.Requests)))
		checked += o.Checked + b.Checked
		different += o.Differences + b.Differences
	}
	printBlock(w, latency...)
	printBlock(w, work...)
	if bounds {
		_, _ = fmt.Fprintf(w, "≥: observers are saturated; documents left count with the time they had waited after %.3g s\n", r.Duration)
	}
	if growing {
		_, _ = fmt.Fprintln(w, "↗: batch passes are saturated; documents of the second half waited more than twice as long")
	}
	if s := r.Saturated; s != nil {
		_, _ = fmt.Fprintf(w, "observers are saturated at %.4g/s: they clustered %.0f/s (%.0f %% of the repository an hour)\n",
			s.Rate, s.Delivered, s.Percent)
	}
	switch c := r.Crossover; {
	case c == nil:
		_, _ = fmt.Fprintln(w, "crossover: none in range, observers have the lower median at all rates")
	case c.Saturation:
		_, _ = fmt.Fprintf(w, "crossover at %.0f/s (%.0f %% of the repository an hour): "+
			"at %.4g/s, observers are saturated and batch passes are not\n", c.Rate, c.Percent, c.First)
	default:
		_, _ = fmt.Fprintf(w, "crossover at %.0f/s (%.0f %% of the repository an hour): at %.4g/s, the median of batch passes is lower\n",
			c.Rate, c.Percent, c.First)
	}
	_, err := fmt.Fprintf(w, "%d cells compared with the same clustering in memory: %d differences\n", checked, different)
	return err
}

func fig7Total(requests map[string]int64) (n int64) {
	for _, m := range requests {
		n += m
	}
	return n
}

// plotFig7 draws median latencies against the crawl rate. From the last rate that observers kept up with, a line of its own leads
// to those that they did not: as they only grow with time, it shows where things go and not how far.
func plotFig7(dir string, r *bench.Fig7Report) error {
	observers := plot.Line{Name: "observers", Points: true}
	saturated := plot.Line{Name: "observers, saturated: at least", Points: true}
	batch := plot.Line{Name: "batch passes", Points: true}
	for i, at := range r.Rates {
		batch.X, batch.Y = append(batch.X, at.Percent), append(batch.Y, at.Batch.Latency.P50/1000)
		median := at.Observers.Latency.P50 / 1000
		if !at.Observers.Saturated {
			observers.X, observers.Y = append(observers.X, at.Percent), append(observers.Y, median)
		}
		next := i+1 < len(r.Rates) && r.Rates[i+1].Observers.Saturated
		if at.Observers.Saturated || next {
			saturated.X, saturated.Y = append(saturated.X, at.Percent), append(saturated.Y, median)
		}
	}
	chart := plot.Chart{
		Title: fmt.Sprintf("Clustering %d documents, and what is crawled", r.Documents),
		X:     plot.Axis{Label: "crawl rate, % of the repository an hour", Log: true},
		Y:     plot.Axis{Label: "median latency, s", Log: true},
	}
	if c := r.Crossover; c != nil {
		chart.Marks = []plot.Mark{{At: c.Percent, Name: "crossover"}}
	}
	lines := slices.DeleteFunc([]plot.Line{observers, batch, saturated}, func(l plot.Line) bool { return len(l.X) == 0 })
	f, err := plot.Lines(chart, lines...)
	if err != nil {
		return err
	}
	return f.Save(dir, "fig7")
}
