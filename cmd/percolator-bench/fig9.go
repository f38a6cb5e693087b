package main

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

func newBenchFig9() *cobra.Command {
	cfg := bench.Fig9Config{}
	var shared benchFlags
	var short bool
	var commissions []string
	cmd := &cobra.Command{
		Use:   "fig9",
		Short: "Measure a brokerage: trades per second against cores and against customers",
		Long: `Measure a brokerage after section 3.3 of the paper (Figure 9): customers with accounts
order trades, a market exchange executes them, and brokers earn commissions. Its
transactions are those of TPC-E in small; it is not TPC-E.

Terminals are goroutines in a closed loop: each begins a transaction as soon as its last
one has ended. Of those 40 % are trade-orders, 30 % customer-positions and 30 %
trade-statuses. A trade-order leaves a ticket with the exchange, which has as many
goroutines as there are terminals: each executes one ticket after the other and settles
the trade in a trade-result, and after 20 of them prices are published in a market-feed.
What is measured is trades executed a second.

A trade adds to the commission of its broker, who serves a hundred customers:

  queue    through a combine queue: trades of one broker do not conflict
  row      in the broker's row, which all of them read and write
  omitted  not at all, as in the paper's measurement

Every repetition has a process of its own, with GOMAXPROCS set, a store of its own, and
a firm that is audited at the end: money conserved to the cent, every order executed,
every commission with its broker. The embedded emulator and the oracle share the
process and its cores; gcloud's emulator has its own, which nothing limits. The numbers
of cores are measured with the most customers, those of customers with the most cores.`,
		Example: `  percolator-bench fig9
  percolator-bench fig9 --short -o json
  percolator-bench fig9 --plot charts --cores 1,2,4 --customers 100,10000 --emulator gcloud`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shortenFig9(cmd, &cfg, &commissions)
			}
			cfg.Emulator = shared.emulator
			cfg.Commissions = nil
			for _, c := range commissions {
				cfg.Commissions = append(cfg.Commissions, tpce.Commission(c))
			}
			return benchFig9(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Cores, "cores", nil,
		"GOMAXPROCS of the process that is measured (default: 1, 2, 4 … and all of this machine's)")
	flags.IntSliceVar(&cfg.Customers, "customers", []int{200, 1000, 4000}, "customers of the firm")
	flags.StringSliceVar(&commissions, "commission", []string{"queue", "row", "omitted"},
		"what becomes of commissions: queue, row, omitted")
	flags.IntVar(&cfg.Terminals, "terminals", 32, "goroutines that are customers, and as many that are the exchange")
	flags.DurationVar(&cfg.FoldEvery, "fold-every", time.Second, "how long queued commissions wait for more, at most")
	flags.DurationVar(&cfg.Duration, "duration", 1500*time.Millisecond,
		"how long each repetition is measured, after a quarter of that to warm up")
	flags.IntVar(&cfg.Repeat, "repeat", 3, "repetitions, of which minimum, median and maximum are told")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "of everything that is left to chance, but for how goroutines take turns")
	flags.BoolVar(&short, "short", false, "a look in some seconds: shorter, one firm on all cores, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	cmd.AddCommand(newBenchFig9Run())
	return cmd
}

// newBenchFig9Run is the process of one repetition.
func newBenchFig9Run() *cobra.Command {
	return &cobra.Command{
		Use: "run", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Fig9Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// allCores is the powers of two, and all.
func allCores(n int) (out []int) {
	for c := 1; c < n; c *= 2 {
		out = append(out, c)
	}
	return append(out, n)
}

// shortenFig9 sets what was not given to values for a quick look.
func shortenFig9(cmd *cobra.Command, cfg *bench.Fig9Config, commissions *[]string) {
	given := cmd.Flags().Changed
	if !given("cores") {
		cfg.Cores = []int{runtime.NumCPU()}
	}
	if !given("customers") {
		cfg.Customers = []int{200}
	}
	if !given("commission") {
		*commissions = []string{"queue", "row"}
	}
	if !given("fold-every") {
		cfg.FoldEvery = 200 * time.Millisecond
	}
	if !given("duration") {
		cfg.Duration = 600 * time.Millisecond
	}
	if !given("repeat") {
		cfg.Repeat = 1
	}
}

func benchFig9(cmd *cobra.Command, cfg bench.Fig9Config, shared benchFlags) error {
	if !cmd.Flags().Changed("cores") && len(cfg.Cores) == 0 {
		cfg.Cores = allCores(runtime.NumCPU())
	}
	if err := checkFig9(cfg, shared); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self = []string{self, "fig9"}
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Fig9(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotFig9(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, fig9Table(report))
}

func checkFig9(cfg bench.Fig9Config, shared benchFlags) error {
	errs := []error{
		shared.check(), within("cores", len(cfg.Cores), 1, 100), within("customers", len(cfg.Customers), 1, 100),
		within("commission", len(cfg.Commissions), 1, 3),
		within("terminals", cfg.Terminals, 1, 10_000), within("repeat", cfg.Repeat, 1, 1000),
	}
	for _, n := range cfg.Cores {
		errs = append(errs, within("cores", n, 1, runtime.NumCPU()))
	}
	for _, n := range cfg.Customers {
		errs = append(errs, within("customers", n, 1, tpce.MaxCustomers))
	}
	for _, c := range cfg.Commissions {
		if !slices.Contains([]tpce.Commission{tpce.Queued, tpce.Direct, tpce.Omitted}, c) {
			errs = append(errs, usagef("--commission %q is neither %s nor %s nor %s", c,
				tpce.Queued, tpce.Direct, tpce.Omitted))
		}
	}
	if cfg.Duration < 10*time.Millisecond || cfg.Duration > time.Hour || cfg.FoldEvery < 0 || cfg.FoldEvery > time.Minute {
		errs = append(errs, usagef("--duration %v is not between 10 ms and 1 h, or --fold-every %v not between 0 and 1 min",
			cfg.Duration, cfg.FoldEvery))
	}
	return errors.Join(errs...)
}
