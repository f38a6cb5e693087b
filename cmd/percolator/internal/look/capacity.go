package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
)

const maxCapacityBytes = 1 << 20 // of a file

// capacityFlags are what "capacity" is told.
type capacityFlags struct {
	files     []string // of workloads
	inputs    string   // file
	set       []string
	times     []float64
	against   []string
	requestMs []float64
}

func NewCapacity() *cobra.Command {
	var output cli.Output
	var f capacityFlags
	var sources bool
	cmd := &cobra.Command{
		Use: "capacity [FILE…]",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.files = append(f.files, args...)
			in, workloads, err := f.read(cmd.Context())
			if err != nil {
				return err
			}
			if sources {
				text, err := yaml.Marshal(in)
				return cmp.Or(err, output.EmitText(cmd.OutOrStdout(), in, strings.TrimSpace(string(text))))
			}
			if len(f.files)+len(f.set) == 0 {
				return cli.Usagef("no workload: percolator capacity FILE, or --set rows=…; %s --help has examples", cmd.CommandPath())
			}
			var all []capacity.Workload
			for _, w := range workloads {
				for _, n := range f.times {
					all = append(all, w.Times(n))
				}
			}
			if len(f.against) > 0 {
				return f.compare(cmd.OutOrStdout(), &output, all, in)
			}
			var plans []*capacity.Plan
			for _, w := range all {
				p, err := capacity.NewPlan(w, in)
				if err != nil {
					return cli.Usagef("%w", err)
				}
				plans = append(plans, p)
			}
			return output.Emit(cmd.OutOrStdout(), plans, func(out io.Writer) { writePlans(out, plans) })
		},
	}
	output.Add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "as FILE")
	flags.StringVar(&f.inputs, "inputs", "", "YAML file with prices and speeds that replace those of --sources")
	flags.StringSliceVar(&f.set, "set", nil, "NAME=VALUE,… of the workload, or of a price or speed; wins against files")
	flags.Float64SliceVar(&f.times, "times", []float64{1}, "a column for so many times the rows, changes and reads")
	flags.BoolVar(&sources, "sources", false, "print prices and speeds, with their sources and dates, as --inputs reads them")
	flags.StringSliceVar(&f.against, "against", nil, "compare costs with "+strings.Join(capacity.Alternatives, ", "))
	_ = cmd.RegisterFlagCompletionFunc("against", cobra.FixedCompletions(capacity.Alternatives, cobra.ShellCompDirectiveNoFileComp))
	flags.Float64SliceVar(&f.requestMs, "request-ms", []float64{1, 3, 5}, "with --against: milliseconds that each request takes")
	return cmd
}

// read reads the files, and what is set after them.
func (f *capacityFlags) read(ctx context.Context) (capacity.Inputs, []capacity.Workload, error) {
	in, err := capacity.DefaultInputs()
	if err == nil && f.inputs != "" {
		err = cli.ReadInput(ctx, f.inputs, nil, maxCapacityBytes, in.Replace)
	}
	if err != nil {
		return nil, nil, err
	}
	workloads := make([]capacity.Workload, max(len(f.files), 1))
	for i := range workloads {
		workloads[i] = capacity.DefaultWorkload()
		if len(f.files) > 0 {
			if err := cli.ReadInput(ctx, f.files[i], nil, maxCapacityBytes, workloads[i].Parse); err != nil {
				return nil, nil, err
			}
		}
		for _, s := range f.set {
			name, value, _ := strings.Cut(s, "=")
			var err error
			switch _, ok := in[name]; {
			case value == "":
				err = errors.New("want NAME=VALUE")
			case ok:
				err = in.Set(name, value)
			default:
				err = workloads[i].Parse([]byte(name + ": " + value))
			}
			if err != nil {
				return nil, nil, cli.Usagef("--set %s: %w", s, err)
			}
		}
	}
	return in, workloads, nil
}

// notInPlan is what the model leaves out.
const notInPlan = `
Left out: conflicts and rows that many transactions want; compression; indexes, unless their
entries count as rows; growth; replication, for which each cluster needs as much again; scans;
traffic that leaves the region; your own code; servers of the oracle; discounts.
Prices and speeds, sources and dates: percolator capacity --sources
`

// writePlans has a column for each plan, and below them what to do about limits that are exceeded.
func writePlans(out io.Writer, plans []*capacity.Plan) {
	writeColumns(out, ordered.Map(plans, func(p *capacity.Plan) [][2]string { return planLines(reflect.ValueOf(*p)) }))
	for _, p := range plans {
		writeBeyond(out, p.Workload, p.Limits.Beyond())
	}
	_, _ = fmt.Fprint(out, notInPlan)
}

func writeBeyond(out io.Writer, w capacity.Workload, beyond []capacity.Limit) {
	if len(beyond) > 0 {
		_, _ = fmt.Fprintf(out, "\nBeyond its limits at %s changes a second:\n", quantity(w.Changes, ""))
	}
	for _, l := range beyond {
		_, _ = fmt.Fprintf(out, "  %s: %s\n", l.Name, l.Remedy)
	}
}

// writeColumns has the words of the first column on the left, and the amounts of all beside them.
func writeColumns(out io.Writer, columns [][][2]string) {
	var lines strings.Builder
	t := cli.NewTable(&lines)
	for at, line := range columns[0] {
		cells := []any{line[0]}
		for _, c := range columns {
			cells = append(cells, c[at][1])
		}
		t.Row(cells...)
	}
	t.Flush()
	for line := range strings.Lines(lines.String()) {
		_, _ = fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
}

// planLines are what and how much for each field of a plan, in order, or of a side of a comparison.
// They are the same for all with the same inputs.
func planLines(v reflect.Value) (lines [][2]string) {
	add := func(what, amount string) { lines = append(lines, [2]string{what, amount}) }
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if tag.Get("table") == "-" {
			continue
		}
		name := tag.Get("json") // in words, unless it is a method's
		if unicode.IsLower(rune(name[0])) {
			name = capital.ReplaceAllStringFunc(name, func(c string) string { return " " + strings.ToLower(c) })
			name = strings.Replace(name, "usd", "USD", 1)
		}
		switch of := v.Field(i).Interface().(type) {
		case capacity.Workload:
			add("CHANGES A SECOND", quantity(of.Changes, ""))
			add("rows", quantity(of.Rows, ""))
		case string:
			add(name, of)
		case float64:
			add(name, quantity(of, tag.Get("unit")))
		case *float64:
			if of == nil {
				add(name, cmp.Or(tag.Get("none"), "unknown"))
			} else {
				add(name, quantity(*of, tag.Get("unit")))
			}
		case []capacity.Limit:
			for _, l := range of {
				used := quantity(100*l.Used, "%")
				if l.Full > 0 {
					used += " of " + quantity(l.Full, "")
				}
				add(l.Name, used)
			}
		case []capacity.Takes:
			for _, took := range of {
				add(fmt.Sprintf("at %v ms each", took.Each), fmt.Sprintf("%v ms", math.Round(1000*took.All)/1000))
			}
		case *capacity.Turn:
			add(name, turnOf(of))
		default: // a part
			add("", "")
			add(strings.ToUpper(name), "")
			lines = append(lines, planLines(v.Field(i))...)
		}
	}
	return lines
}

var capital = regexp.MustCompile(`[A-Z]`)

// quantity has three digits, and a prefix from a thousand on.
func quantity(n float64, unit string) string {
	switch {
	case unit == "s" && n == 0:
		return "never"
	case unit == "s":
		// A Duration holds 292 years.
		return text.Age(time.Duration(min(n, 9e9) * float64(time.Second)))
	case unit == "%" && n >= 999.5:
		return fmt.Sprintf("%.0f %%", n)
	}
	prefix := 0
	for ; n >= 999.5 && prefix < len(prefixes)-1; prefix++ {
		n /= 1000
	}
	return strings.TrimSpace(fmt.Sprintf("%.3g %s%s", n, strings.TrimSpace(prefixes[prefix:prefix+1]), unit))
}

const prefixes = " kMGTPE"
