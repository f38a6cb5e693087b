package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/cmd/percolator/internal/bench"
)

func newBenchTSO() *cobra.Command {
	cfg := bench.OracleConfig{}
	var output string
	cmd := &cobra.Command{
		Use:   "tso",
		Short: "Measure the timestamp oracle: timestamps a second, latency, memory",
		Long: `Measure the timestamp oracle over gRPC on loopback. The server, with its record in
memory, runs in a process of its own; the callers, goroutines that ask for one
timestamp at a time, are spread over other processes on the same machine. The
processes run with GOGC=400 unless that is set.`,
		Example: `  percolator bench tso
  percolator bench tso --callers 4096 --duration 10s -o json
  percolator bench tso --total 100000000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return benchTSO(cmd, cfg, output) },
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Callers, "callers", []int{1, 256, 1024, 2048, 3072}, "callers that ask as fast as they can, in all processes")
	flags.IntVar(&cfg.Processes, "processes", runtime.NumCPU(), "processes with callers")
	flags.IntVar(&cfg.Clients, "clients", 1, "clients of the oracle in each process")
	flags.DurationVar(&cfg.Duration, "duration", 2*time.Second, "of each measurement")
	flags.IntVar(&cfg.Repeat, "repeat", 3, "how often each rate is measured")
	flags.IntVar(&cfg.Offered, "offered", 1_000_000, "timestamps a second that are asked for to measure latencies")
	flags.IntVar(&cfg.OfferedCallers, "offered-callers", 1024, "callers that ask for them")
	flags.Int64Var(&cfg.Total, "total", 0, "timestamps to take while memory is looked at (0: none)")
	flags.StringVarP(&output, "output", "o", "table", "table or json")
	cmd.AddCommand(newBenchServer(), newBenchLoad())
	return cmd
}

// The parts of the benchmark that run in processes of their own.

func newBenchServer() *cobra.Command {
	return &cobra.Command{
		Use: "server", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Server(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newBenchLoad() *cobra.Command {
	var targets string
	var clients int
	cmd := &cobra.Command{
		Use: "load", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Load(cmd.Context(), targets, clients, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&targets, "tso", "", "the server")
	cmd.Flags().IntVar(&clients, "clients", 1, "clients")
	return cmd
}

func benchTSO(cmd *cobra.Command, cfg bench.OracleConfig, output string) error {
	switch {
	case output != "table" && output != "json":
		return usagef("--output %q is neither table nor json", output)
	case cfg.Duration <= 0 || cfg.Duration > time.Hour || cfg.Total < 0:
		return usagef("--duration %v is not between 0 and 1 h, or --total %d is negative", cfg.Duration, cfg.Total)
	case cfg.OfferedCallers < cfg.Processes:
		return usagef("--offered-callers %d are fewer than --processes %d", cfg.OfferedCallers, cfg.Processes)
	}
	most := func(flag string, n, limit int) error {
		if n < 1 || n > limit {
			return usagef("--%s %d is not between 1 and %d", flag, n, limit)
		}
		return nil
	}
	errs := []error{
		most("processes", cfg.Processes, 64), most("clients", cfg.Clients, 64), most("repeat", cfg.Repeat, 1000),
		most("offered", cfg.Offered, 100_000_000), most("offered-callers", cfg.OfferedCallers, 1_000_000),
	}
	for _, n := range cfg.Callers {
		errs = append(errs, most("callers", n, 1_000_000))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self = []string{self, "bench", "tso"}
	done := showProgress(cmd, &cfg)
	report, err := bench.Oracle(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	if output == "json" {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	return printOracle(cmd.OutOrStdout(), report)
}

// showProgress shows a bar on a terminal.
func showProgress(cmd *cobra.Command, cfg *bench.OracleConfig) (done func()) {
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) {
		return func() {}
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	bar := bars.AddBar(0, mpb.PrependDecorators(decor.Name("measuring ")), mpb.AppendDecorators(decor.CountersNoUnit("%d/%d"), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
	cfg.Progress = func(n, all int) {
		bar.SetTotal(int64(all), false)
		bar.SetCurrent(int64(n))
	}
	return func() {
		bar.SetTotal(-1, true)
		bars.Wait()
	}
}

func printOracle(w io.Writer, r *bench.OracleReport) error {
	block := func(rows ...string) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, row := range rows {
			_, _ = fmt.Fprintln(t, row+"\t")
		}
		_ = t.Flush()
		_, _ = fmt.Fprintln(w)
	}
	spread := func(name, format string, s bench.Summary) string {
		return fmt.Sprintf("%s\t"+format+"\t"+format+"\t"+format, name, s.Min, s.Median, s.Max)
	}
	_, _ = fmt.Fprintf(w, "timestamp oracle over gRPC on loopback: %s, %d CPUs, server in a process, callers in %d others\n\n", r.GoVersion, r.CPUs, r.Processes)
	rates := []string{"callers\ttimestamps/s: min\tmedian\tmax"}
	for _, x := range r.Rates {
		rates = append(rates, spread(strconv.Itoa(x.Callers), "%.0f", x.PerSecond))
	}
	block(rates...)
	block("one caller\tmin\tmedian\tmax",
		spread("round trip, µs", "%.1f", r.Single.Next),
		spread("empty call, µs", "%.1f", r.Single.Empty),
		spread("ratio", "%.2f", r.Single.Ratio))
	o := r.Offered
	block("callers\toffered/s\tdelivered/s\tp50 ms\tp99 ms\tp99.9 ms\tmax ms",
		fmt.Sprintf("%d\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.3f", o.Callers, o.Offered, o.Delivered, o.P50, o.P99, o.P999, o.Max))
	if len(r.Memory) > 0 {
		memory := []string{"timestamps\tserver's live heap, KB\tcallers' live heap, KB"}
		for _, m := range r.Memory {
			memory = append(memory, fmt.Sprintf("%d\t%d\t%d", m.Timestamps, m.Server>>10, m.Load>>10))
		}
		block(memory...)
	}
	_, err := fmt.Fprintf(w, "%d timestamps served with %d writes to the store in %.1f s\n", r.Writes.Timestamps, r.Writes.Writes, r.Writes.Seconds)
	return err
}
