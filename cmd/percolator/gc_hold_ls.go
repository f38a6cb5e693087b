package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newHoldLs() *cobra.Command {
	var f dataFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the holds, oldest snapshot first",
		Long: `List the holds, oldest snapshot first: the first one is what keeps collection back. Among
them may be some that have expired and that no collector has removed yet.`,
		Example: `  percolator gc hold ls
  percolator gc hold ls -o json | jq -r '.[0].reason'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, c *percolator.Client) error {
				holds, err := admin.New(c).Holds(ctx)
				if err != nil {
					return err
				}
				list := newHoldsJSON(holds)
				return output.emit(cmd.OutOrStdout(), list, func(w io.Writer) error { return printHolds(w, list) })
			})
		},
	}
	f.add(cmd, defaultCellTimeout)
	output.add(cmd)
	return cmd
}
