package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

func newNotifyRetry() *cobra.Command {
	var f parkedFlags
	cmd := &cobra.Command{
		Use:   "retry " + parkedArgs,
		Short: "Have parked observers run again",
		Long: `Have parked observers run again.

The next scan of a worker tries the cell as if it had just changed, with all attempts.
The observer sees the newest value. Other observers of the cell are not affected.`,
		Example: `  percolator notify retry documents com.example/ crawl:response process
  percolator notify retry --observer process --dry-run
  percolator notify retry --all`,
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
				return f.each(cmd, chosen, "retried", func(p observers.Parked) error { return observers.Retry(ctx, c, p) })
			})
		},
	}
	f.add(cmd)
	return cmd
}
