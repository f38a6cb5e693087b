package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newHoldRelease() *cobra.Command {
	var f dataFlags
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "release ID",
		Short: "End a hold before it expires",
		Long: `End a hold before it expires. What it kept is collected by the next cycle: whoever still
reads there, a backup for example, fails. The exit status is 7 if there is no such hold.`,
		Example: `  percolator gc hold release 6f1c3a52-8a0e-4c67-9a53-0b7f5a8f9f10
  percolator gc hold ls -o json | jq -r '.[] | select(.reason == "export of June").id' | xargs percolator gc hold release --yes`,
		Args: holdArg,
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			h, err := findHold(ctx, c, args[0])
			if err != nil {
				return err
			}
			did := "would be released"
			if !dryRun {
				if err := ask(ctx, cmd, yes, "Release the hold at %s (%s)?", atTime(h.Timestamp), orDash(h.Reason)); err != nil {
					return err
				}
				if err := admin.New(c).ReleaseHold(ctx, h); err != nil {
					return err
				}
				did = "released"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: hold %s at %s\n", did, h.ID, atTime(h.Timestamp))
			return err
		}),
	}
	f.add(cmd, defaultCellTimeout)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	return cmd
}
