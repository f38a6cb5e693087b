// Package measure has the benchmarks. Each is a type whose fields are its flags (command.go), which
// measures on an environment (environment.go) and fills a report.
package measure

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/clumping"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/plot"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/cmd/webindex/index"
)

// benchmark is one command, a pointer to a struct. Its exported fields are its flags (flags.tsv).
type benchmark interface {
	check() error // what is wrong with its fields together: each is within its bounds
	run(ctx context.Context, r *run) error
}

// description is a benchmark with its name and which of the shared flags it has beside --output,
// --short and --plot. Its help is in help/NAME.txt.
type description struct {
	benchmark
	name string

	emulator bool // it can run on either emulator
	journal  bool // it measures with the journal and without
	repeat   int  // the default of --repeat, which is 1 with --short; 0: there is no such flag
}

// run is a benchmark under way.
type run struct {
	*report.Report
	emulator string // embeddedEmulator or gcloudEmulator
	Repeat   int    // a flag
	Journal  []string
	mode     journal // one of those
	failed   error   // what the status tells after the report was printed

	show      func(done, all int) // may be nil
	done, all int
}

func newRun(name string) *run {
	return &run{Report: report.New(name, time.Now()), emulator: embeddedEmulator, Repeat: 1, Journal: []string{"on"}}
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
		{benchmark: new(badDayBenchmark), name: "bad-day"},
		{benchmark: new(changesBenchmark), name: "changes", emulator: true},
		{benchmark: &clumpingBenchmark{clumping.Default()}, name: "clumping"},
		{benchmark: new(fig10Benchmark), name: "fig10", emulator: true},
		{benchmark: new(fig7Benchmark), name: "fig7", emulator: true},
		{benchmark: new(fig8Benchmark), name: "fig8", emulator: true, repeat: 3},
		{benchmark: &fig9Benchmark{Cores: allCores(runtime.NumCPU())}, name: "fig9", emulator: true, repeat: 3},
		{benchmark: &goalsBenchmark{Collapse: index.Collapse}, name: "goals", emulator: true, repeat: 3},
		{benchmark: new(latencyBenchmark), name: "latency", emulator: true, repeat: 3},
		{benchmark: new(observersBenchmark), name: "observers", journal: true},
		{benchmark: &opsBenchmark{Collapse: index.Collapse}, name: "ops", emulator: true},
		{benchmark: &pagesBenchmark{Collapse: index.Collapse}, name: "pages", emulator: true},
		{benchmark: new(scaleBenchmark), name: "scale", emulator: true, journal: true, repeat: 3},
		{benchmark: new(oracleBenchmark), name: "tso", repeat: 3},
		{benchmark: new(ycsbBenchmark), name: "ycsb", emulator: true, repeat: 5},
	}
}

// Command is the program: each benchmark is a command below it.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "percolator-bench",
		Short: "Measure, and print what was measured",
		Long: `Measure, and print what was measured.

Exit status: 0 success, 1 failure or a wrong answer, 2 wrong usage.`,
		Args: noArgs,
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
	f.bind(d.name, d.benchmark)
	f.check(d.check)
	r := newRun(d.name)
	if d.repeat > 0 {
		r.Repeat = d.repeat
		f.bind("", r)
	}
	if d.journal {
		f.bind("both", r)
	}
	if d.emulator {
		f.one(&r.emulator, "emulator", "", []string{embeddedEmulator, gcloudEmulator},
			`"embedded" (in this process) or "gcloud" (that of gcloud's SDK, where this machine has it)`)
	}
	var output, plots string
	var quick bool
	f.one(&output, "output", "o", []string{"table", "json"}, "table or json")
	f.set.StringVar(&plots, "plot", "", "directory to write charts to, as SVG and PNG")
	f.set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(map[string]string{"quick": "short", "runs": "repeat"}[name], name))
	})
	f.set.BoolVar(&quick, "short", false, "a look in some seconds: small values, where flags do not say otherwise")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.apply(quick); err != nil {
			return err
		}
		show, end := showProgress(cmd)
		r.show = show
		for _, j := range r.Journal {
			r.mode, r.done = journal(j), 0
			if err := d.run(cmd.Context(), r); err != nil {
				end()
				return err
			}
		}
		end()
		var err error
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

// usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// noArgs is the Args of a command without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	return unless(len(args) == 0, "unknown argument %q of %s; see --help", strings.Join(args, " "), cmd.CommandPath())
}

// showProgress shows a bar on a terminal, and nothing elsewhere: show is nil then.
func showProgress(cmd *cobra.Command) (show func(done, all int), end func()) {
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) {
		return nil, func() {}
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	bar := bars.AddBar(0, mpb.PrependDecorators(decor.Name("measuring ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d/%d"), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
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

// flagTable has a row for each flag of a benchmark: benchmark, name, default, value under --short,
// bounds, usage. "=" leaves the value as it is, and help shows what follows it; CPUS is how many
// processors there are. Names have a list of those that are known instead of bounds.
//
//go:embed flags.tsv
var flagTable string

// bind declares the flags of a benchmark, each for the field of that name: --scan-only sets
// ScanOnly.
func (f *flags) bind(benchmark string, to any) {
	fields := reflect.ValueOf(to).Elem()
	for row := range strings.Lines(strings.ReplaceAll(flagTable, "CPUS", strconv.Itoa(runtime.NumCPU()))) {
		c := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if c[0] != benchmark {
			continue
		}
		name, value, short, least, most := c[1], c[2], c[3], c[4], c[5]
		field := fields.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, strings.ReplaceAll(name, "-", "")) })
		flag := f.declare(name, c[6], field.Addr().Interface())
		assign(flag.Value, value)
		if flag.DefValue = flag.Value.String(); len(value) > 1 && value[0] == '=' {
			flag.DefValue = value[1:]
		}
		f.shorten[name] = func() { assign(flag.Value, short) }
		f.check(func() error { return bounded(flag, least, most) })
	}
}

// declare declares a flag whose default is what it is set to.
func (f *flags) declare(name, usage string, to any) *pflag.Flag {
	switch p := to.(type) {
	case *bool:
		f.set.BoolVar(p, name, *p, usage)
	case *int:
		f.set.IntVar(p, name, *p, usage)
	case *int64:
		f.set.Int64Var(p, name, *p, usage)
	case *uint64:
		f.set.Uint64Var(p, name, *p, usage)
	case *float64:
		f.set.Float64Var(p, name, *p, usage)
	case *time.Duration:
		f.set.DurationVar(p, name, *p, usage)
	case *[]int:
		f.set.IntSliceVar(p, name, *p, usage)
	case *[]float64:
		f.set.Float64SliceVar(p, name, *p, usage)
	case *[]string:
		f.set.StringSliceVar(p, name, *p, usage)
	}
	return f.set.Lookup(name)
}

// assign gives a flag a value of the table, whose mistakes show in every test.
func assign(to pflag.Value, value string) {
	var err error
	switch list, ok := to.(pflag.SliceValue); {
	case strings.HasPrefix(value, "="):
	case ok:
		err = list.Replace(slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return s == "" }))
	default:
		err = to.Set(value)
	}
	if err != nil {
		panic(err)
	}
}

// bounded refuses what a flag must not have. Numbers are one at least, and a hundred at most.
func bounded(flag *pflag.Flag, least, most string) error {
	values := []string{flag.Value.String()}
	list, many := flag.Value.(pflag.SliceValue)
	if many {
		values = list.GetSlice()
	}
	if most == "" {
		if least != "" {
			return among(flag.Name, strings.Split(least, ","), values...)
		}
		return nil
	}
	errs := []error{within(flag.Name, len(values), 1, 100)}
	for _, v := range values {
		if n := magnitude(v); n < magnitude(least) || n > magnitude(most) {
			errs = append(errs, usagef("--%s %s is not between %s and %s", flag.Name, v, least, most))
		}
	}
	return errors.Join(errs...)
}

// magnitude makes numbers and durations comparable.
func magnitude(s string) float64 {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(s) //nolint:errcheck // a flag has read it, or is in the table
	return float64(d)
}

// ascending refuses a list that is not.
func ascending[T int | float64](name string, list []T) error {
	distinct := slices.Compact(slices.Clone(list))
	return unless(slices.IsSorted(list) && len(distinct) == len(list), "--%s %v do not ascend", name, list)
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

// unless returns a mistake in the flags, unless it is fine.
func unless(fine bool, format string, args ...any) error {
	if fine {
		return nil
	}
	return usagef(format, args...)
}

// check adds one more condition, which is asked for when all flags are set.
func (f *flags) check(ok func() error) { f.checks = append(f.checks, ok) }

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
func within[T int | int64 | float64](flag string, n, least, most T) error {
	return unless(least <= n && n <= most, "--%s %v is not between %v and %v", flag, n, least, most)
}
