package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/observers"
)

func newNotifyDrop() *cobra.Command {
	var f parkedFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop " + parkedArgs,
		Short: "Give parked changes up",
		Long: `Give parked changes up: their observers count as having run, without any effect. The
next change of the cell is run for as ever. This cannot be undone.`,
		Example: `  percolator notify drop documents com.example/ crawl:response process
  percolator notify drop --observer process --dry-run`,
		ValidArgsFunction: completeTables,
		PreRunE:           f.check,
		RunE: f.run("dropped", func(ctx context.Context, cmd *cobra.Command, n int) error {
			return ask(ctx, cmd, yes || f.dryRun || n == 0, "Give up %d changes for good?", n)
		}, observers.Drop),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
