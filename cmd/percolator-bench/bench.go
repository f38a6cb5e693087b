package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/measure"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "percolator-bench",
		Short: "Measure, and print what was measured",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SilenceUsage:  true, // an error is not a question about usage
		SilenceErrors: true, // execute prints them
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(measure.Commands()...)
	cmd.AddCommand(newBenchScale(), newBenchObservers())
	return cmd
}

// benchFlags are those that every benchmark has.
type benchFlags struct {
	output   string
	plots    string // a directory; "": none
	emulator string
}

func (f *benchFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
}

// addPlot is for benchmarks that draw.
func (f *benchFlags) addPlot(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.plots, "plot", "", "directory to write charts to, as SVG and PNG")
}

// addEmulator is for benchmarks that can run on either emulator.
func (f *benchFlags) addEmulator(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.emulator, "emulator", bench.EmbeddedEmulator, `"embedded" (in this process) or "gcloud" (that of gcloud's SDK, where this machine has it)`)
}

func (f *benchFlags) check() error {
	if f.emulator != "" && f.emulator != bench.EmbeddedEmulator && f.emulator != bench.GcloudEmulator {
		return usagef("--emulator %q is neither %s nor %s", f.emulator, bench.EmbeddedEmulator, bench.GcloudEmulator)
	}
	if f.output != "table" && f.output != "json" {
		return usagef("--output %q is neither table nor json", f.output)
	}
	return nil
}

// print writes a report as asked for.
func (f *benchFlags) print(cmd *cobra.Command, report any, table func(io.Writer) error) error {
	if f.output == "json" {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	return table(cmd.OutOrStdout())
}

// within refuses numbers that a flag must not have.
func within[T int | float64](flag string, n, least, most T) error {
	if n < least || n > most {
		return usagef("--%s %v is not between %v and %v", flag, n, least, most)
	}
	return nil
}

// showProgress shows a bar on a terminal, and nothing elsewhere. progress is nil then.
func showProgress(cmd *cobra.Command) (progress func(done, all int), end func()) {
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) {
		return nil, func() {}
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	bar := bars.AddBar(0, mpb.PrependDecorators(decor.Name("measuring ")), mpb.AppendDecorators(decor.CountersNoUnit("%d/%d"), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
	progress = func(n, all int) {
		bar.SetTotal(int64(all), false)
		bar.SetCurrent(int64(n))
	}
	return progress, func() {
		bar.SetTotal(-1, true)
		bars.Wait()
	}
}

// printBlock writes a table whose rows have their fields between tabs, and an empty line.
func printBlock(w io.Writer, rows ...string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		_, _ = fmt.Fprintln(t, row+"\t")
	}
	_ = t.Flush()
	_, _ = fmt.Fprintln(w)
}

func withinTime(flag string, d time.Duration) error {
	if d < time.Millisecond || d > 24*time.Hour {
		return usagef("--%s %v is not between 1 ms and 24 h", flag, d)
	}
	return nil
}
