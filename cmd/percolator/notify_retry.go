package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/observers"
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
		PreRunE:           f.check,
		RunE:              f.run("retried", func(context.Context, *cobra.Command, int) error { return nil }, observers.Retry),
	}
	f.add(cmd)
	return cmd
}
