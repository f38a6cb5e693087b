package main

import (
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

func newDel() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   "del TABLE ROW COLUMN",
		Short: "Delete a cell in a transaction of its own",
		Long: `Delete a cell in a transaction of its own. A deletion is a write like any other:
observers are notified and indexes maintained, and it succeeds where there is no value.
Earlier snapshots keep showing the value until it is collected: get --as-of brings it
back.`,
		Example:           `  percolator del documents com.example/ title`,
		Args:              oneCell,
		ValidArgsFunction: completeTables,
		RunE: func(cmd *cobra.Command, args []string) error {
			return commitOne(cmd, f, args, (*percolator.Txn).Delete)
		},
	}
	f.add(cmd, defaultCellTimeout)
	return cmd
}
