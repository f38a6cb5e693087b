package look

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func NewRow() *cobra.Command {
	var f cli.QueryFlags
	var at cli.AsOf
	var columns []string
	var journal bool
	opts := admin.InspectOptions{Versions: 20}
	cmd := &cobra.Command{
		Use: "row TABLE ROW",
		PreRunE: func(*cobra.Command, []string) (err error) {
			opts.Columns, err = cli.Names(columns)
			return err
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) (err error) {
			if opts.AsOf, err = at.Timestamp(ctx, c); err != nil {
				return err
			}
			in, err := admin.New(c).InspectRow(ctx, args[0], args[1], opts)
			if err != nil {
				return err
			}
			show := shownRow{in: in, now: opts.AsOf == 0, journal: journal}
			if journal {
				show.named, show.all, err = admin.New(c).EntriesOf(ctx, args[0], args[1])
			}
			return cmp.Or(err, show.emit(cmd.OutOrStdout(), f.Output))
		}, cli.Reading),
	}
	f.Add(cmd, cli.CellTimeout)
	at.Add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&columns, "column", nil, "only this column; may be repeated")
	flags.IntVar(&opts.Versions, "versions", opts.Versions, "how many cells to show of each column and family, the newest")
	flags.IntVar(&opts.Cells, "cells", 5000, "how many cells to show of each family of the row")
	flags.BoolVar(&opts.Values, "values", false, "show the beginnings of values")
	flags.BoolVar(&journal, "journal", false, "search the journal for entries that name the row")
	flags.IntVar(&opts.ValueBytes, "value-bytes", 256, "where values are cut in JSON")
	return cmd
}

// shownRow is what "row" has found.
type shownRow struct {
	in      admin.RowInspection
	now     bool // the reader is one of the present
	journal bool // named was asked for
	named   []admin.FoundEntry
	all     bool // of the journal was searched
}

func (r shownRow) emit(w io.Writer, output cli.Output) error {
	if r.in.Empty() && r.in.Truncated == "" && len(r.named) == 0 {
		return fmt.Errorf("%s: %w: nothing is stored", cli.RowName(r.in.Table, r.in.Row), percolator.ErrNotFound)
	}
	out := newInspectionJSON(r.in)
	if r.journal {
		out.Journal = &namedInJSON{ordered.Map(r.named, newNamingJSON), r.all}
	}
	return output.Emit(w, out, func(w io.Writer) {
		rowText{in: r.in, now: r.now, paint: cli.PainterFor(w)}.write(w)
		if r.journal {
			printNamed(w, r.named, r.all)
		}
	})
}
