package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newHoldLs() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the holds, oldest snapshot first",
		Long: `List the holds, oldest snapshot first: the first one is what keeps collection back. Among
them may be some that have expired and that no collector has removed yet.`,
		Example: `  percolator gc hold ls
  percolator gc hold ls -o json | jq -r '.[0].reason'`,
		Args: noArgs,
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			holds, err := admin.New(c).Holds(ctx)
			if err != nil {
				return err
			}
			list := newHoldsJSON(holds)
			return f.output.emit(cmd.OutOrStdout(), list, func(w io.Writer) error { return printHolds(w, list) })
		}),
	}
	f.add(cmd, defaultCellTimeout)
	return cmd
}
