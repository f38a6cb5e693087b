package data

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// deletionJSON is what "del-range" prints for programs.
type deletionJSON struct {
	Table     string        `json:"table"`
	Before    tso.Timestamp `json:"before"` // what committed later stays
	Deleted   int64         `json:"deleted"`
	Kept      int64         `json:"kept"`
	Conflicts int64         `json:"conflicts"`
	Resumed   bool          `json:"resumed"`
	DryRun    bool          `json:"dryRun"`
}

func (d deletionJSON) String() string {
	switch {
	case d.DryRun:
		return fmt.Sprintf("%d cells would be deleted", d.Deleted)
	case d.Resumed:
		return fmt.Sprintf("%d cells deleted, that were there at %s, when an earlier run began; %d written since were kept", d.Deleted, text.At(d.Before), d.Kept)
	}
	return fmt.Sprintf("%d cells deleted; %d written since were kept", d.Deleted, d.Kept)
}

func NewDelRange() *cobra.Command {
	var f cli.QueryFlags
	var which rangeFlags
	var opts admin.DeleteOptions
	var all, yes bool
	cmd := &cobra.Command{
		Use: "del-range TABLE [COLUMN…]",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := which.rows(); err != nil {
				return err
			}
			if all == (which != rangeFlags{}) {
				return cli.Usagef("%s needs --prefix, --from, --to or --all", cmd.CommandPath())
			}
			return cli.AboveZero("rows-per-second", opts.RowsPerSecond)
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			if err := cli.InSchema(c, args[0]); err != nil {
				return err
			}
			if err := cli.Ask(ctx, cmd, yes || opts.DryRun, "Delete these cells of %s in %s/%s?", cli.Shown(args[0]), f.Project, f.Instance); err != nil {
				return err
			}
			rows, err := which.rows()
			if err != nil {
				return err
			}
			opts.Columns = args[1:]
			return deleteRange(ctx, cmd, c, args[0], rows, opts, &f.Output)
		}),
	}
	f.Add(cmd, cli.WalkTimeout)
	which.define(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "every row of the table")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only count the cells")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().IntVar(&opts.RowsPerSecond, "rows-per-second", 1000, "rows to read and delete in a second, at most")
	return cmd
}

func deleteRange(ctx context.Context, cmd *cobra.Command, c *percolator.Client, table string, rows percolator.Range, opts admin.DeleteOptions, output *cli.Output) error {
	say, end := cli.StatusLine(cmd)
	opts.Progress = func(p admin.DeleteProgress) {
		say(fmt.Sprintf("%s: %d cells, at row %s", table, p.Deleted, cli.Shown(p.Row)))
	}
	p, err := admin.New(c).DeleteRange(ctx, table, rows, opts)
	end()
	if err != nil {
		if p.Before != 0 && !opts.DryRun {
			err = fmt.Errorf("after %d cells (the same command resumes there): %w", p.Deleted, err)
		}
		return err
	}
	out := deletionJSON{table, p.Before, p.Deleted, p.Kept, p.Conflicts, p.Resumed, opts.DryRun}
	return output.EmitText(cmd.OutOrStdout(), out, out.String())
}
