package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

func newBenchScale() *cobra.Command {
	cfg := bench.ScaleConfig{}
	var shared benchFlags
	var short bool
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure how the cost of each operation grows with rows, versions and notifications",
		Long: `Measure how the cost of each operation grows, by one caller that does one after the
other, in three sweeps in each of which one size changes:

  rows             of a table
  versions         of each cell, before they are collected
  notifications    in a table

Each size is a table of its own, all tables of a sweep stand in one store, and sizes
take turns. Tables are filled in bulk with the cells that committed transactions leave,
and every answer is compared with what was written. An operation's growth is its ratio
to the smallest size, and the exponent of the power law that fits best: 0 when the cost
does not depend on the size, 1 when it is in proportion.

The embedded emulator holds everything in this process; the report says how much that
is. 1,000,000 rows of 100 bytes with their index take some GB.`,
		Example: `  percolator-bench scale
  percolator-bench scale --short -o json
  percolator-bench scale --rows 10000,100000,1000000 --versions 0 --notifications 0
  percolator-bench scale --notifications 1,10,100,1000,10000,100000 --plot charts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				shortenScale(cmd, &cfg)
			}
			return benchScale(cmd, cfg, shared)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Rows, "rows", []int{10_000, 100_000}, "rows of the tables, ascending (0: leave that sweep out)")
	flags.IntSliceVar(&cfg.Versions, "versions", []int{1, 10, 100}, "versions of each cell, ascending (0: leave that sweep out)")
	flags.IntVar(&cfg.VersionRows, "version-rows", 1000, "rows of the tables with many versions")
	flags.IntSliceVar(&cfg.Notifications, "notifications", []int{1, 100, 10_000}, "notifications in the tables, ascending (0: leave that sweep out)")
	flags.IntVar(&cfg.Value, "value", 100, "bytes of a value")
	flags.IntVar(&cfg.Samples, "samples", 200, "how often each operation is done in each repetition, on each table")
	flags.IntVar(&cfg.Repeat, "repeat", 3, "repetitions")
	flags.BoolVar(&short, "short", false, "a look in some seconds: small tables and few samples, where flags do not say otherwise")
	shared.add(cmd)
	shared.addPlot(cmd)
	shared.addEmulator(cmd)
	return cmd
}

// shortenScale sets what was not given to values for a quick look.
func shortenScale(cmd *cobra.Command, cfg *bench.ScaleConfig) {
	given := cmd.Flags().Changed
	for _, f := range []struct {
		name string
		list *[]int
		to   []int
	}{{"rows", &cfg.Rows, []int{1000, 10_000}}, {"versions", &cfg.Versions, []int{1, 10}}, {"notifications", &cfg.Notifications, []int{1, 1000}}} {
		if !given(f.name) {
			*f.list = f.to
		}
	}
	if !given("version-rows") {
		cfg.VersionRows = 200
	}
	if !given("samples") {
		cfg.Samples = 10
	}
}

func benchScale(cmd *cobra.Command, cfg bench.ScaleConfig, shared benchFlags) error {
	errs := []error{
		shared.check(), within("version-rows", cfg.VersionRows, 100, 1_000_000), within("value", cfg.Value, 1, 65_536),
		within("samples", cfg.Samples, 1, 100_000), within("repeat", cfg.Repeat, 1, 1000),
		sizes("rows", &cfg.Rows, 100, 10_000_000), sizes("versions", &cfg.Versions, 1, 1000), sizes("notifications", &cfg.Notifications, 1, 1_000_000),
	}
	if len(cfg.Rows)+len(cfg.Versions)+len(cfg.Notifications) == 0 {
		errs = append(errs, usagef("--rows, --versions and --notifications leave nothing to measure"))
	}
	if n := len(cfg.Versions); n > 0 && cfg.VersionRows*cfg.Versions[n-1] > 10_000_000 {
		errs = append(errs, usagef("--version-rows %d with --versions %d are more than 10,000,000 versions", cfg.VersionRows, cfg.Versions[n-1]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cfg.Emulator = shared.emulator
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Scale(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if shared.plots != "" {
		if err := plotScale(shared.plots, report); err != nil {
			return err
		}
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printScale(w, report) })
}

// sizes refuses a list that is not ascending, and makes 0 none.
func sizes(flag string, list *[]int, least, most int) error {
	if len(*list) == 1 && (*list)[0] == 0 {
		*list = nil
	}
	errs := []error{within(flag, len(*list), 0, 20)}
	for i, n := range *list {
		errs = append(errs, within(flag, n, least, most))
		if i > 0 && n <= (*list)[i-1] {
			errs = append(errs, usagef("--%s %v are not ascending", flag, *list))
		}
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}
