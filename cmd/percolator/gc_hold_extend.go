package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newHoldExtend() *cobra.Command {
	var f queryFlags
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "extend ID",
		Short: "Have a hold expire later, or earlier",
		Long: `Have a hold expire --ttl from now, which may also be earlier than it would. The exit status
is 7 if there is no such hold any more.`,
		Example: `  percolator gc hold extend 6f1c3a52-8a0e-4c67-9a53-0b7f5a8f9f10 --ttl 2h`,
		Args:    holdArg,
		PreRunE: func(*cobra.Command, []string) error { return checkTTL(ttl) },
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			h, err := findHold(ctx, c, args[0])
			if err == nil {
				h, err = admin.New(c).ExtendHold(ctx, h, ttl)
			}
			if err != nil {
				return err
			}
			return emitHold(cmd, f.output, h)
		}),
	}
	f.add(cmd, defaultCellTimeout)
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it lasts from now, at most a week")
	return cmd
}
