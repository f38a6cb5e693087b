package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newRow() *cobra.Command {
	var f queryFlags
	var at asOfFlag
	var columns []string
	opts := admin.InspectOptions{Versions: 20}
	cmd := &cobra.Command{
		Use:               "row TABLE ROW",
		ValidArgsFunction: completeTables,
		Args:              takes(2, 2, "a table and a row"),
		PreRunE: func(*cobra.Command, []string) (err error) {
			opts.Columns, err = names(columns)
			return err
		},
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) (err error) {
			if opts.AsOf, err = at.timestamp(ctx, c); err != nil {
				return err
			}
			in, err := admin.New(c).InspectRow(ctx, args[0], args[1], opts)
			if err != nil {
				return err
			}
			return showInspection(cmd.OutOrStdout(), in, opts, f.output)
		}, reading),
	}
	f.add(cmd, defaultCellTimeout)
	at.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&columns, "column", nil, "only this column; may be repeated")
	flags.IntVar(&opts.Versions, "versions", opts.Versions, "how many cells are shown of each column and family, the newest ones")
	flags.IntVar(&opts.Cells, "cells", 5000, "how many cells are shown of each family of the row")
	flags.BoolVar(&opts.Values, "values", false, "show the beginnings of values")
	flags.IntVar(&opts.ValueBytes, "value-bytes", 256, "where values are cut in JSON")
	return cmd
}

func showInspection(w io.Writer, in admin.RowInspection, opts admin.InspectOptions, output outputFlag) error {
	if in.Empty() && in.Truncated == "" {
		return fmt.Errorf("row %s of table %s: %w: nothing is stored", shown(in.Row), in.Table, percolator.ErrNotFound)
	}
	return output.emit(w, newInspectionJSON(in), rowText{in: in, now: opts.AsOf == 0, paint: painterFor(w)}.write)
}
