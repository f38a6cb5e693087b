package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

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
		s += fmt.Sprintf(", %s: %s", g.sign()+number(g.Wanted), map[bool]string{true: "met", false: "missed"}[g.Met])
		if g.Peer != "" {
			s += ", peer " + g.Peer
		}
	}
	return s
}

func (g *Goal) sign() string {
	if g.AtLeast {
		return "≥ "
	}
	return "≤ "
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
