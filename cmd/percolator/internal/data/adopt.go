package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/adopt"
)

// shownDifferences is how many differences "adopt" lists; it counts them all.
const shownDifferences = 1000

// adoptJSON is what "adopt" prints for programs.
type adoptJSON struct {
	Rows    int64            `json:"rows"` // of the plain table
	Cells   int64            `json:"cells"`
	Differ  int64            `json:"differ"`
	Mended  int64            `json:"mended"`
	Invalid int64            `json:"invalid"` // cannot be stored
	List    []differenceJSON `json:"differences"`
}

type differenceJSON struct {
	Row    string     `json:"row"`
	Column string     `json:"column"`
	Kind   adopt.Kind `json:"kind"`
	Reason string     `json:"reason,omitempty"`
}

func (out adoptJSON) print(w io.Writer) {
	if len(out.List) > 0 {
		t := cli.NewTable(w, "ROW", "COLUMN", "DIFFERENCE")
		for _, d := range out.List {
			what := string(d.Kind)
			if d.Reason != "" {
				what += ": " + cli.Shown(d.Reason)
			}
			t.Row(d.Row, d.Column, what)
		}
		t.Flush()
	}
	_, _ = fmt.Fprintf(w, "%d rows with %d cells were compared: %s differed, %d were mended, %d cannot be stored\n", out.Rows, out.Cells, cli.Counted(out.Differ, "cell"), out.Mended, out.Invalid)
}

func NewAdopt() *cobra.Command {
	var f cli.QueryFlags
	var source importSource
	var opts adopt.CompareOptions
	cmd := &cobra.Command{
		Use: "adopt TABLE --from bigtable:TABLE --map FILE",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := source.check(); err != nil {
				return err
			}
			if !strings.HasPrefix(source.from, plainScheme) {
				return cli.Usagef("--from %s is not bigtable:TABLE", source.from)
			}
			if err := cli.AboveZero("grace", opts.Grace); err != nil {
				return err
			}
			var err error
			if opts.Start, err = cli.FromShown(opts.Start); err != nil {
				return err
			}
			return f.With(cmd, func(ctx context.Context, c *percolator.Client) error {
				p, err := source.plain(ctx, f.InstanceName)
				if err != nil {
					return err
				}
				defer p.close()
				out, err := compare(ctx, cmd, c, args[0], p, opts)
				if err != nil && len(out.List) == 0 {
					return err
				}
				return cmp.Or(errors.Join(err, f.Output.Emit(cmd.OutOrStdout(), out, out.print)), cli.FindingsOf(max(0, out.Differ-out.Mended), "cell", "the tables differ in %s"))
			})
		},
	}
	f.Add(cmd, cli.WalkTimeout)
	source.add(cmd)
	cmd.Flags().BoolVar(&opts.Mend, "mend", false, "copy cells of the plain table to TABLE wherever the two differ")
	cmd.Flags().StringVar(&opts.Start, "start", "", "row to begin with, as an interrupted comparison has printed it")
	cmd.Flags().DurationVar(&opts.Grace, "grace", 2*time.Second, "how long a difference must last to count")
	return cmd
}

func compare(ctx context.Context, cmd *cobra.Command, c *percolator.Client, table string, p plainTable, opts adopt.CompareOptions) (adoptJSON, error) {
	out := adoptJSON{List: []differenceJSON{}}
	opts.Found = func(d adopt.Difference) {
		if len(out.List) == shownDifferences {
			return
		}
		of := differenceJSON{Row: cli.Shown(d.Cell.Row), Column: cli.ShownName(d.Cell.Column), Kind: d.Kind}
		if d.Err != nil {
			of.Reason = d.Err.Error()
		}
		out.List = append(out.List, of)
	}
	say, end := cli.StatusLine(cmd)
	opts.Progress = func(r adopt.CompareReport) { say(fmt.Sprintf("%d rows compared, %d cells differ", r.Rows, r.Differ)) }
	r, err := adopt.Compare(ctx, c, table, p.Table, p.mapping, opts)
	end()
	if err != nil && r.Next != "" {
		err = fmt.Errorf("%w; all rows before %s were compared, and %s found to differ: --start goes on there", err, cli.Shown(r.Next), cli.Counted(r.Differ, "cell"))
	}
	out.Rows, out.Cells, out.Differ, out.Invalid = r.Rows, r.Cells, r.Differ, r.Invalid
	if opts.Mend {
		out.Mended = r.Differ - r.Invalid
	}
	return out, err
}
