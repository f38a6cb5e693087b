package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

func newBenchTSO() *cobra.Command {
	cfg := bench.OracleConfig{}
	var shared benchFlags
	cmd := &cobra.Command{
		Use:   "tso",
		Short: "Measure the timestamp oracle: timestamps a second, latency, memory",
		Long: `Measure the timestamp oracle over gRPC on loopback. The server, with its record in
memory, runs in a process of its own; the callers, goroutines that ask for one
timestamp at a time, are spread over other processes on the same machine. The
processes run with GOGC=400 unless that is set.`,
		Example: `  percolator-bench tso
  percolator-bench tso --callers 4096 --duration 10s -o json
  percolator-bench tso --total 100000000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return benchTSO(cmd, cfg, shared) },
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
	shared.add(cmd)
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

func benchTSO(cmd *cobra.Command, cfg bench.OracleConfig, shared benchFlags) error {
	switch {
	case cfg.Duration <= 0 || cfg.Duration > time.Hour || cfg.Total < 0:
		return usagef("--duration %v is not between 0 and 1 h, or --total %d is negative", cfg.Duration, cfg.Total)
	case cfg.OfferedCallers < cfg.Processes:
		return usagef("--offered-callers %d are fewer than --processes %d", cfg.OfferedCallers, cfg.Processes)
	}
	errs := []error{
		shared.check(),
		within("processes", cfg.Processes, 1, 64), within("clients", cfg.Clients, 1, 64), within("repeat", cfg.Repeat, 1, 1000),
		within("offered", cfg.Offered, 1, 100_000_000), within("offered-callers", cfg.OfferedCallers, 1, 1_000_000),
	}
	for _, n := range cfg.Callers {
		errs = append(errs, within("callers", n, 1, 1_000_000))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self = []string{self, "tso"}
	progress, done := showProgress(cmd)
	cfg.Progress = progress
	report, err := bench.Oracle(cmd.Context(), cfg)
	done()
	if err != nil {
		return err
	}
	return shared.print(cmd, report, func(w io.Writer) error { return printOracle(w, report) })
}

func printOracle(w io.Writer, r *bench.OracleReport) error {
	spread := func(name, format string, s bench.Summary) string {
		return fmt.Sprintf("%s\t"+format+"\t"+format+"\t"+format, name, s.Min, s.Median, s.Max)
	}
	_, _ = fmt.Fprintf(w, "timestamp oracle over gRPC on loopback: %s, %d CPUs, server in a process, callers in %d others\n\n", r.GoVersion, r.CPUs, r.Processes)
	rates := []string{"callers\ttimestamps/s: min\tmedian\tmax"}
	for _, x := range r.Rates {
		rates = append(rates, spread(strconv.Itoa(x.Callers), "%.0f", x.PerSecond))
	}
	printBlock(w, rates...)
	printBlock(w, "one caller\tmin\tmedian\tmax",
		spread("round trip, µs", "%.1f", r.Single.Next),
		spread("empty call, µs", "%.1f", r.Single.Empty),
		spread("ratio", "%.2f", r.Single.Ratio))
	o := r.Offered
	printBlock(w, "callers\toffered/s\tdelivered/s\tp50 ms\tp99 ms\tp99.9 ms\tmax ms",
		fmt.Sprintf("%d\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.3f", o.Callers, o.Offered, o.Delivered, o.P50, o.P99, o.P999, o.Max))
	if len(r.Memory) > 0 {
		memory := []string{"timestamps\tserver's live heap, KB\tcallers' live heap, KB"}
		for _, m := range r.Memory {
			memory = append(memory, fmt.Sprintf("%d\t%d\t%d", m.Timestamps, m.Server>>10, m.Load>>10))
		}
		printBlock(w, memory...)
	}
	_, err := fmt.Fprintf(w, "%d timestamps served with %d writes to the store in %.1f s\n", r.Writes.Timestamps, r.Writes.Writes, r.Writes.Seconds)
	return err
}
