// Package measure has the benchmarks. Each is a type whose fields are its flags (command.go), which
// measures on an environment (environment.go) and fills a report.
package measure

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/plot"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// benchmark is one command. Its fields are set by its flags.
type benchmark interface {
	declare(f *flags)
	run(ctx context.Context, r *run) error
}

// description is a benchmark with its name and which of the shared flags it has beside --output,
// --short and --plot. Its help is in help/NAME.txt.
type description struct {
	benchmark
	name string

	emulator bool // it can run on either emulator
	repeat   int  // the default of --repeat, which is 1 with --short; 0: there is no such flag
}

// run is a benchmark under way.
type run struct {
	*report.Report
	emulator string // embeddedEmulator or gcloudEmulator
	repeat   int
	failed   error // what the status tells after the report was printed

	show      func(done, all int) // nil: nobody looks
	done, all int
}

func newRun(name string) *run {
	return &run{Report: report.New(name, time.Now()), emulator: embeddedEmulator, repeat: 1}
}

// step tells that one of the steps is done.
func (r *run) step() {
	if r.done++; r.show != nil {
		r.show(r.done, r.all)
	}
}

// help is what each benchmark says of itself: a line, more of it, and examples.
//
//go:embed help/*.txt
var help embed.FS

// benchmarks are all of them.
func benchmarks() []description {
	return []description{
		{benchmark: new(clumpingBenchmark), name: "clumping"},
		{benchmark: new(fig10Benchmark), name: "fig10", emulator: true},
		{benchmark: new(fig7Benchmark), name: "fig7", emulator: true},
		{benchmark: new(fig8Benchmark), name: "fig8", emulator: true, repeat: 3},
		{benchmark: new(fig9Benchmark), name: "fig9", emulator: true, repeat: 3},
		{benchmark: new(goalsBenchmark), name: "goals", emulator: true, repeat: 3},
		{benchmark: new(latencyBenchmark), name: "latency", emulator: true, repeat: 3},
		{benchmark: new(observersBenchmark), name: "observers"},
		{benchmark: new(opsBenchmark), name: "ops", emulator: true},
		{benchmark: new(scaleBenchmark), name: "scale", emulator: true, repeat: 3},
		{benchmark: new(oracleBenchmark), name: "tso", repeat: 3},
	}
}

// Command is the program: each benchmark is a command below it.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "percolator-bench",
		Short: "Measure, and print what was measured",
		Long: `Measure, and print what was measured.

Exit status: 0 success, 1 failure or a wrong answer, 2 wrong usage.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SilenceUsage:  true, // an error is not a question about usage
		SilenceErrors: true, // the program prints them
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	for _, d := range benchmarks() {
		root.AddCommand(newCommand(d))
	}
	root.AddCommand(newPart())
	return root
}

// ExitStatus is what an error of Command stands for.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	if _, usage := errors.AsType[usageError](err); usage {
		return 2
	}
	return 1
}

func newCommand(d description) *cobra.Command {
	text, _ := help.ReadFile("help/" + d.name + ".txt") // a test reads all of them
	short, rest, _ := strings.Cut(string(text), "\n\n")
	long, example, _ := strings.Cut(rest, "\n\nExamples:\n")
	cmd := &cobra.Command{Use: d.name, Short: short, Long: long, Example: strings.TrimSuffix(example, "\n"), Args: noArgs}
	f := &flags{set: cmd.Flags(), shorten: map[string]func(){}}
	d.declare(f)
	r := newRun(d.name)
	if d.repeat > 0 {
		number(f, &r.repeat, "repeat", d.repeat, 1, 1, 1000, "repetitions, of which minimum, median and maximum are told")
	}
	if d.emulator {
		f.one(&r.emulator, "emulator", "", []string{embeddedEmulator, gcloudEmulator},
			`"embedded" (in this process) or "gcloud" (that of gcloud's SDK, where this machine has it)`)
	}
	var output, plots string
	var quick bool
	f.one(&output, "output", "o", []string{"table", "json"}, "table or json")
	f.set.StringVar(&plots, "plot", "", "directory to write charts to, as SVG and PNG")
	f.set.BoolVar(&quick, "short", false, "a look in some seconds: small values, where flags do not say otherwise")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.apply(quick); err != nil {
			return err
		}
		show, end := showProgress(cmd)
		r.show = show
		err := d.run(cmd.Context(), r)
		end()
		if err != nil {
			return err
		}
		if plots != "" {
			err = plot.Save(plots, r.Charts)
		}
		write := r.WriteTables
		if output == "json" {
			write = r.WriteJSON
		}
		return errors.Join(err, write(cmd.OutOrStdout()), r.failed)
	}
	return cmd
}

// usageError is an error of whoever typed the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// noArgs is the Args of a command without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args)
}

// showProgress shows a bar on a terminal, and nothing elsewhere: show is nil then.
func showProgress(cmd *cobra.Command) (show func(done, all int), end func()) {
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) {
		return nil, func() {}
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	bar := bars.AddBar(0, mpb.PrependDecorators(decor.Name("measuring ")), mpb.AppendDecorators(decor.CountersNoUnit("%d/%d"), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
	show = func(n, all int) {
		bar.SetTotal(int64(all), false)
		bar.SetCurrent(int64(n))
	}
	return show, func() {
		bar.SetTotal(-1, true)
		bars.Wait()
	}
}

// flags are those of one benchmark, each with its default, its value under --short, and its bounds.
type flags struct {
	set     *pflag.FlagSet
	shorten map[string]func()
	checks  []func() error
}

// quantity is what a flag with bounds may be.
type quantity interface {
	int | int64 | uint64 | float64 | time.Duration
}

// number declares a flag.
func number[T quantity](f *flags, to *T, name string, value, short, least, most T, usage string) {
	switch p := any(to).(type) {
	case *int:
		f.set.IntVar(p, name, any(value).(int), usage)
	case *int64:
		f.set.Int64Var(p, name, any(value).(int64), usage)
	case *uint64:
		f.set.Uint64Var(p, name, any(value).(uint64), usage)
	case *float64:
		f.set.Float64Var(p, name, any(value).(float64), usage)
	case *time.Duration:
		f.set.DurationVar(p, name, any(value).(time.Duration), usage)
	}
	f.onShort(name, func() { *to = short })
	f.check(func() error { return within(name, *to, least, most) })
}

// numbers declares a flag with a list of at least one.
func numbers[T int | float64](f *flags, to *[]T, name string, value, short []T, least, most T, usage string) {
	switch p := any(to).(type) {
	case *[]int:
		f.set.IntSliceVar(p, name, any(value).([]int), usage)
	case *[]float64:
		f.set.Float64SliceVar(p, name, any(value).([]float64), usage)
	}
	f.onShort(name, func() { *to = short })
	f.check(func() error {
		errs := []error{within(name, len(*to), 1, 100)}
		for _, n := range *to {
			errs = append(errs, within(name, n, least, most))
		}
		return errors.Join(errs...)
	})
}

// ascending refuses a list that is not.
func ascending[T int | float64](name string, list []T) error {
	for i := range max(len(list)-1, 0) {
		if list[i+1] <= list[i] {
			return usagef("--%s %v do not ascend", name, list)
		}
	}
	return nil
}

// names declares a flag with a list of names.
func (f *flags) names(to *[]string, name string, value, short, known []string, usage string) {
	f.set.StringSliceVar(to, name, value, usage)
	f.onShort(name, func() { *to = short })
	f.check(func() error { return among(name, known, *to...) })
}

// one declares a flag with one of the known names, of which the first is the default.
func (f *flags) one(to *string, name, letter string, known []string, usage string) {
	f.set.StringVarP(to, name, letter, known[0], usage)
	f.check(func() error { return among(name, known, *to) })
}

// among refuses names that are not known.
func among(flag string, known []string, names ...string) error {
	for _, n := range names {
		if !slices.Contains(known, n) {
			return usagef("--%s %q is none of %s", flag, n, strings.Join(known, ", "))
		}
	}
	return nil
}

// toggle declares a flag that is off unless given, or unless short says so.
func (f *flags) toggle(to *bool, name string, short bool, usage string) {
	f.set.BoolVar(to, name, false, usage)
	f.onShort(name, func() { *to = short })
}

// check adds one more condition, which is asked for when all flags are set.
func (f *flags) check(ok func() error) { f.checks = append(f.checks, ok) }

func (f *flags) onShort(name string, shorten func()) { f.shorten[name] = shorten }

// apply shortens what was not given, if short, and returns everything that is wrong.
func (f *flags) apply(short bool) error {
	for name, shorten := range f.shorten {
		if short && !f.set.Changed(name) {
			shorten()
		}
	}
	var errs []error
	for _, ok := range f.checks {
		errs = append(errs, ok())
	}
	return errors.Join(errs...)
}

// within refuses numbers that a flag must not have.
func within[T quantity](flag string, n, least, most T) error {
	if n < least || n > most {
		return usagef("--%s %v is not between %v and %v", flag, n, least, most)
	}
	return nil
}
