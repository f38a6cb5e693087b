package main

import (
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

func newDel() *cobra.Command {
	var f dataFlags
	var output outputFlag
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
			if err := output.check(); err != nil {
				return err
			}
			named, err := names(args)
			if err != nil {
				return err
			}
			return commitOne(cmd, f, output, func(tx *percolator.Txn) error {
				return tx.Delete(percolator.Cell{Table: named[0], Row: named[1], Column: named[2]})
			})
		},
	}
	f.add(cmd, defaultCellTimeout)
	output.add(cmd)
	return cmd
}
