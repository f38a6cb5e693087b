package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			return f.data.with(cmd, func(ctx context.Context, c *percolator.Client) error {
				chosen, err := f.choose(ctx, c, args)
				if err != nil {
					return err
				}
				if err := ask(ctx, cmd, yes || f.dryRun || len(chosen) == 0, "Give up %d changes for good?", len(chosen)); err != nil {
					return err
				}
				return f.each(cmd, chosen, "dropped", func(p observers.Parked) error { return observers.Drop(ctx, c, p) })
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
