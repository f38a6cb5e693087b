package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

func newBenchFig10() *cobra.Command {
	cfg := bench.Fig10Config{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "fig10",
		Short: "Measure the recovery from failures: tablet servers, the oracle's leader, a worker",
		Long: `Measure how a steady load fares while parts of the system fail and come back, as in
Figure 10 of the paper. Transfers between random accounts are offered at a steady
rate, each with an entry in a journal whose observer runs once for it, on two workers
in processes of their own. One after the other:

  outage   a third of the keys is unavailable, as when tablet servers have died and
           their tablets are not yet served by others. Requests for these rows fail
           below the clients; some writes are applied and only their answer is lost.
  oracle   the server of the oracle that leads is killed. It hands nothing over: the
           other one has to wait for the end of its lease.
  worker   one of the workers is killed while it holds locks. Who meets the locks
           has to settle them, and the other worker has to run for its rows.

In the end everything is audited: the sum of all balances, each acknowledged transfer,
each entry's one run. The status is 1 if anything is lost, twice or wrong.`,
		Example: `  percolator-bench fig10
  percolator-bench fig10 --short -o json
  percolator-bench fig10 --only outage --outage 30s --plot charts --emulator gcloud`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shortenFig10(cmd, &cfg)
			}
			cfg.Emulator = shared.emulator
			return benchFig10(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&cfg.Only, "only", nil, "some events only, of: "+strings.Join(bench.Fig10Events(), ", "))
	flags.IntVar(&cfg.Accounts, "accounts", 10_000, "accounts")
	flags.Float64Var(&cfg.Rate, "rate", 0, "transfers offered a second (0: two fifths of what 32 writers reach)")
	flags.DurationVar(&cfg.Saturate, "saturate", 3*time.Second, "how long these writers are measured")
	flags.DurationVar(&cfg.Deadline, "deadline", 5*time.Second, "how long a caller waits for a transfer")
	flags.DurationVar(&cfg.Steady, "steady", 5*time.Second, "how long nothing fails before each event")
	flags.DurationVar(&cfg.OutageFor, "outage", 10*time.Second, "how long a third of the keys is unavailable")
	flags.DurationVar(&cfg.After, "after", 10*time.Second, "how long is watched after the end of each fault")
	flags.DurationVar(&cfg.Bucket, "bucket", 250*time.Millisecond, "width of the buckets of the series")
	flags.DurationVar(&cfg.LockTTL, "lock-ttl", 10*time.Second, "TTL of locks")
	flags.DurationVar(&cfg.Oracle.Lease, "lease", 3*time.Second, "lease of the oracle's leader")
	flags.DurationVar(&cfg.Oracle.Window, "window", 3*time.Second, "time of timestamps that it reserves ahead")
	flags.DurationVar(&cfg.Oracle.SessionLease, "session-lease", 5*time.Second, "how long the oracle believes that a silent process lives")
	flags.BoolVar(&cfg.DisableBatching, "no-batching", false, "send a request for each read, instead of joining concurrent ones")
	flags.BoolVar(&cfg.DisableRowLocks, "no-row-locks", false, "workers lock no rows against each other; a killed one's would be for 10 s")
	flags.BoolVar(&short, "short", false, "a look in some seconds: shorter, with short leases, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	cmd.AddCommand(newBenchFig10Oracle(), newBenchFig10Worker())
	return cmd
}

// shortenFig10 sets what was not given to values for a quick look.
func shortenFig10(cmd *cobra.Command, cfg *bench.Fig10Config) {
	for _, f := range []struct {
		name  string
		to    *time.Duration
		value time.Duration
	}{
		{"saturate", &cfg.Saturate, 300 * time.Millisecond},
		{"deadline", &cfg.Deadline, time.Second},
		{"steady", &cfg.Steady, 400 * time.Millisecond},
		{"outage", &cfg.OutageFor, time.Second},
		{"after", &cfg.After, 800 * time.Millisecond},
		{"bucket", &cfg.Bucket, 50 * time.Millisecond},
		{"lock-ttl", &cfg.LockTTL, time.Second},
		{"lease", &cfg.Oracle.Lease, 300 * time.Millisecond},
		{"window", &cfg.Oracle.Window, 300 * time.Millisecond},
		{"session-lease", &cfg.Oracle.SessionLease, 500 * time.Millisecond},
	} {
		if !cmd.Flags().Changed(f.name) {
			*f.to = f.value
		}
	}
	if !cmd.Flags().Changed("accounts") {
		cfg.Accounts = 1000
	}
	if !cmd.Flags().Changed("no-row-locks") {
		cfg.DisableRowLocks = true
	}
}

// The parts of the benchmark that run in processes of their own.

func newBenchFig10Oracle() *cobra.Command {
	var address string
	var times bench.OracleTimes
	cmd := &cobra.Command{
		Use: "oracle", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Fig10Oracle(cmd.Context(), address, times, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "bigtable", "", "the emulator")
	cmd.Flags().DurationVar(&times.Lease, "lease", 0, "of the leader")
	cmd.Flags().DurationVar(&times.Window, "window", 0, "reserved ahead")
	cmd.Flags().DurationVar(&times.SessionLease, "session-lease", 0, "of sessions")
	return cmd
}

func newBenchFig10Worker() *cobra.Command {
	var at bench.StoreAddresses
	var cfg bench.Fig10Config
	cmd := &cobra.Command{
		Use: "worker", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Fig10Worker(cmd.Context(), at, cfg, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	addAddresses(cmd, &at)
	cmd.Flags().DurationVar(&cfg.LockTTL, "lock-ttl", 0, "TTL of locks")
	cmd.Flags().BoolVar(&cfg.DisableBatching, "no-batching", false, "a request for each read")
	cmd.Flags().BoolVar(&cfg.DisableRowLocks, "no-row-locks", false, "lock no rows")
	return cmd
}

func benchFig10(cmd *cobra.Command, cfg bench.Fig10Config, shared benchFlags) error {
	if err := checkFig10(cfg, shared); err != nil {
		return err
	}
	cfg.Only = inOrder(cfg.Only)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self = []string{self, "fig10"}
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Fig10(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotFig10(shared.plots, report); err != nil {
			return err
		}
	}
	if err := shared.print(cmd, report, func(w io.Writer) error { return printFig10(w, report) }); err != nil {
		return err
	}
	return report.Audit.Err()
}

func checkFig10(cfg bench.Fig10Config, shared benchFlags) error {
	errs := []error{shared.check(), within("accounts", cfg.Accounts, 2, 1_000_000)}
	if cfg.Rate != 0 {
		errs = append(errs, within("rate", cfg.Rate, 1, 20_000))
	}
	for _, name := range cfg.Only {
		if !slices.Contains(bench.Fig10Events(), name) {
			errs = append(errs, usagef("--only %q is none of %s", name, strings.Join(bench.Fig10Events(), ", ")))
		}
	}
	for _, f := range []struct {
		name        string
		d           time.Duration
		least, most time.Duration
	}{
		{"saturate", cfg.Saturate, 10 * time.Millisecond, 10 * time.Minute},
		{"deadline", cfg.Deadline, 10 * time.Millisecond, time.Minute},
		{"steady", cfg.Steady, 10 * time.Millisecond, 10 * time.Minute},
		{"outage", cfg.OutageFor, 10 * time.Millisecond, 10 * time.Minute},
		{"after", cfg.After, 10 * time.Millisecond, 10 * time.Minute},
		{"bucket", cfg.Bucket, time.Millisecond, time.Minute},
		{"lock-ttl", cfg.LockTTL, 100 * time.Millisecond, time.Hour},
		{"lease", cfg.Oracle.Lease, 10 * time.Millisecond, time.Hour},
		{"window", cfg.Oracle.Window, time.Millisecond, time.Hour},
		{"session-lease", cfg.Oracle.SessionLease, 100 * time.Millisecond, time.Hour},
	} {
		if f.d < f.least || f.d > f.most {
			errs = append(errs, usagef("--%s %v is not between %v and %v", f.name, f.d, f.least, f.most))
		}
	}
	if cfg.Bucket > min(cfg.Steady, cfg.After) {
		errs = append(errs, usagef("--bucket %v is longer than --steady %v or --after %v", cfg.Bucket, cfg.Steady, cfg.After))
	}
	return errors.Join(errs...)
}

// inOrder returns each event that was named once, in the order in which they happen.
func inOrder(named []string) (out []string) {
	for _, name := range bench.Fig10Events() {
		if slices.Contains(named, name) {
			out = append(out, name)
		}
	}
	return out
}
