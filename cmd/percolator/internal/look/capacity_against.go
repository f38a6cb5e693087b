package look

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
)

// compare prints what workloads cost elsewhere.
func (f *capacityFlags) compare(out io.Writer, output *cli.Output, workloads []capacity.Workload, in capacity.Inputs) error {
	for _, name := range f.against {
		if !slices.Contains(capacity.Alternatives, name) {
			return cli.Usagef("--against %q: there are %s%s", name, strings.Join(capacity.Alternatives, ", "), text.DidYouMean(name, capacity.Alternatives...))
		}
	}
	var all []*capacity.Comparison
	for _, w := range workloads {
		c, err := capacity.Compare(w, in, f.against, f.requestMs)
		if err != nil {
			return cli.Usagef("%w", err)
		}
		all = append(all, c)
	}
	return output.Emit(out, all, func(out io.Writer) { writeComparisons(out, all) })
}

// notCompared is what the comparison leaves out.
const notCompared = `
Counted elsewhere as nothing: what clients compute, and how follow-up work is found. Left out
everywhere: what "percolator capacity" leaves out without --against, free tiers, commitments.
Every assumption, with sources and dates: percolator capacity --sources
`

// writeComparisons has a table for each workload, with a column for each side.
func writeComparisons(out io.Writer, all []*capacity.Comparison) {
	for at, c := range all {
		if at > 0 {
			_, _ = fmt.Fprintln(out)
		}
		columns := ordered.Map(c.Sides, func(s capacity.Side) [][2]string { return planLines(reflect.ValueOf(s)) })
		columns[0][0][0] = quantity(c.Workload.Changes, "") + " CHANGES A SECOND"
		writeColumns(out, columns)
		_, _ = fmt.Fprintln(out)
		said := ""
		for _, s := range c.Sides {
			if s.GivesUp != "" && s.GivesUp != said {
				_, _ = fmt.Fprintf(out, "%s gives up: %s\n", strings.Fields(s.Name)[0], s.GivesUp)
			}
			said = s.GivesUp
		}
		writeBeyond(out, c.Workload, c.Beyond)
	}
	_, _ = fmt.Fprint(out, notCompared)
}

// turnOf says which side is cheaper, and from where on.
func turnOf(t *capacity.Turn) string {
	switch {
	case t == nil:
		return "–"
	case t.From == nil:
		return "always " + t.Cheaper
	}
	return t.Cheaper + " from " + quantity(*t.From, "")
}
