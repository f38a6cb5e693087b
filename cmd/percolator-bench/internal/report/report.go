// Package report is what every benchmark hands back: tables whose rows have named figures, what is
// wanted of them, and charts.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what one benchmark measured.
type Report struct {
	Benchmark string   `json:"benchmark"`
	GoVersion string   `json:"go"`
	CPUs      int      `json:"cpus"`
	Date      string   `json:"date"`
	Emulator  string   `json:"emulator,omitempty"`
	Title     string   `json:"title"`
	Tables    []*Table `json:"tables"`
	Notes     []string `json:"notes,omitempty"`

	Charts []Chart `json:"-"`
}

// Table is a number of rows. Those of a series are in JSON only: they are what a chart shows.
type Table struct {
	Name   string `json:"name"`
	Title  string `json:"title,omitempty"`
	Series bool   `json:"series,omitempty"`
	Rows   []*Row `json:"rows"`
}

// Row is one thing that was measured.
type Row struct {
	Name    string   `json:"name"`
	Figures []Figure `json:"figures"`
}

// Figure is a number with a unit. Of one that was measured several times Value is the median.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit,omitempty"`
	Value  float64 `json:"value"`
	Spread *Spread `json:"spread,omitempty"`
	Text   string  `json:"text,omitempty"` // what a number cannot say
	Goal   *Goal   `json:"goal,omitempty"`
}

// Spread is the least and the greatest of the repetitions.
type Spread struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Goal is what is wanted of a figure, and the verdict.
type Goal struct {
	Wanted  float64 `json:"wanted"`
	AtLeast bool    `json:"at_least,omitempty"` // otherwise at most
	Peer    string  `json:"peer,omitempty"`     // what the paper or another system has
	Met     bool    `json:"met"`
}

// New begins the report of a benchmark on this machine.
func New(benchmark string, now time.Time) *Report {
	return &Report{Benchmark: benchmark, GoVersion: runtime.Version(), CPUs: runtime.NumCPU(), Date: now.UTC().Format(time.DateOnly)}
}

// Table returns the table of that name, a new one if there is none.
func (r *Report) Table(name string) *Table {
	if i := slices.IndexFunc(r.Tables, func(t *Table) bool { return t.Name == name }); i >= 0 {
		return r.Tables[i]
	}
	t := &Table{Name: name, Rows: []*Row{}}
	r.Tables = append(r.Tables, t)
	return t
}

// Row returns the row of that name, a new one if there is none.
func (t *Table) Row(name string) *Row {
	if i := slices.IndexFunc(t.Rows, func(r *Row) bool { return r.Name == name }); i >= 0 {
		return t.Rows[i]
	}
	return t.Append(name)
}

// Append adds a row, whether or not there is one of that name.
func (t *Table) Append(name string) *Row {
	r := &Row{Name: name, Figures: []Figure{}}
	t.Rows = append(t.Rows, r)
	return r
}

// Add adds figures, given as names and values in turns. A name may end with a unit, as in "time,
// ms". A value is a number, or a text, or the samples of a figure that was measured several times;
// an even number of samples has the greater of the two in the middle.
func (r *Row) Add(namesAndValues ...any) {
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		var f Figure
		f.Name, f.Unit, _ = strings.Cut(namesAndValues[i].(string), ", ")
		switch v := namesAndValues[i+1].(type) {
		case int:
			f.Value = float64(v)
		case int64:
			f.Value = float64(v)
		case float64:
			f.Value = v
		case string:
			f.Text = v
		case []float64:
			s := slices.Sorted(slices.Values(v))
			f.Value, f.Spread = s[len(s)/2], &Spread{s[0], s[len(s)-1]}
		default:
			panic(fmt.Sprintf("report: figure %s is a %T", f.Name, v))
		}
		r.Figures = append(r.Figures, f)
	}
}

// Want sets the goal of the figure that was added last.
func (r *Row) Want(g Goal) {
	f := &r.Figures[len(r.Figures)-1]
	g.Met = g.AtLeast && f.Value >= g.Wanted || !g.AtLeast && f.Value <= g.Wanted
	f.Goal = &g
}

// Figure returns the figure of that name, one without a name if there is none.
func (r *Row) Figure(name string) Figure {
	if i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
		return r.Figures[i]
	}
	return Figure{}
}

// Value returns the value of the figure of that name, 0 if there is none.
func (r *Row) Value(name string) float64 { return r.Figure(name).Value }

// Median is the median of samples, in the same way as that of Add.
func Median(samples []float64) float64 {
	return slices.Sorted(slices.Values(samples))[len(samples)/2]
}

// Chart is a picture of figures: lines, or bars if it has categories. Name is that of its files.
type Chart struct {
	Name, Title string
	X, Y        Axis
	Marks       []Mark
	Lines       []Line
	Categories  []string // of bars; each has one of each group
	Bars        []Bars
}

// Axis is one axis of a chart.
type Axis struct {
	Label string  // what is shown, with its unit: "latency, ms"
	Log   bool    // logarithmic: all values must be above 0
	Max   float64 // where it ends that begins at 0; 0: both as the data do
}

// Mark is a dashed line across the chart, for a goal or a limit.
type Mark struct {
	At         float64
	Name       string // written beside it
	Horizontal bool   // at y = At; else at x = At
}

// Line is a series of points, in the order of X.
type Line struct {
	Name   string // in the legend; "": not there
	X, Y   []float64
	Points bool // shows each point
	Steps  bool // holds each value until the next
}

// Bars is one bar for each category.
type Bars struct {
	Name   string // in the legend; "": not there
	Values []float64
}

// Draw adds a chart to the report, without its lines and groups that have nothing to show.
func (r *Report) Draw(c Chart) {
	c.Lines = slices.DeleteFunc(c.Lines, func(l Line) bool { return len(l.X) == 0 })
	if len(c.Lines)+len(c.Categories) > 0 {
		r.Charts = append(r.Charts, c)
	}
}

// Line takes a point from each row that of accepts, nil: from all.
func (t *Table) Line(name, x, y string, of func(*Row) bool) Line {
	l := Line{Name: name, Points: !t.Series, Steps: t.Series}
	for _, r := range t.Rows {
		if of == nil || of(r) {
			l.X, l.Y = append(l.X, r.Value(x)), append(l.Y, r.Value(y))
		}
	}
	return l
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// WriteTables writes the report for people.
func (r *Report) WriteTables(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, %d CPUs, %s", r.Title, r.GoVersion, r.CPUs, r.Date)
	if r.Emulator != "" {
		fmt.Fprintf(&b, ", on %s", r.Emulator)
	}
	b.WriteString("\n\n")
	for _, t := range r.Tables {
		if !t.Series && len(t.Rows) > 0 {
			t.write(&b)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintln(&b, n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write lists the figures of all rows in columns, in the order in which they first appear.
func (t *Table) write(w io.Writer) {
	if t.Title != "" {
		_, _ = fmt.Fprintln(w, t.Title)
	}
	var columns []string
	head := t.Name
	for _, r := range t.Rows {
		for _, f := range r.Figures {
			if !slices.Contains(columns, f.Name) {
				columns = append(columns, f.Name)
				head += "\t" + strings.TrimSpace(f.Name+" "+f.Unit)
			}
		}
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, head+"\t")
	for _, r := range t.Rows {
		line := r.Name
		for _, name := range columns {
			line += "\t"
			if f := r.Figure(name); f.Name != "" {
				line += f.String()
			}
		}
		_, _ = fmt.Fprintln(out, line+"\t")
	}
	_ = out.Flush()
	_, _ = fmt.Fprintln(w)
}

// String is the figure as tables show it, without name and unit.
func (f Figure) String() string {
	s := f.Text
	if s == "" {
		s = number(f.Value)
	}
	if f.Spread != nil && f.Spread.Min != f.Spread.Max {
		s += fmt.Sprintf(" (%s – %s)", number(f.Spread.Min), number(f.Spread.Max))
	}
	if g := f.Goal; g != nil {
		s += fmt.Sprintf(", %s%s: %s", map[bool]string{true: "≥ ", false: "≤ "}[g.AtLeast], number(g.Wanted),
			map[bool]string{true: "met", false: "missed"}[g.Met])
		if g.Peer != "" {
			s += ", peer " + g.Peer
		}
	}
	return s
}

// number writes three digits or so, and integers whole.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case v == math.Trunc(v) || abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	case abs >= 1:
		return fmt.Sprintf("%.2f", v)
	case abs >= 0.01:
		return fmt.Sprintf("%.3f", v)
	default:
		return fmt.Sprintf("%.2g", v)
	}
}
