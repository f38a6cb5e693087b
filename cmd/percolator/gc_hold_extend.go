package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newHoldExtend() *cobra.Command {
	var f dataFlags
	var output outputFlag
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "extend ID",
		Short: "Have a hold expire later, or earlier",
		Long: `Have a hold expire --ttl from now, which may also be earlier than it would. The exit status
is 7 if there is no such hold any more.`,
		Example: `  percolator gc hold extend 6f1c3a52-8a0e-4c67-9a53-0b7f5a8f9f10 --ttl 2h`,
		Args:    holdArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if ttl <= 0 {
				return usagef("--ttl %v is not above 0", ttl)
			}
			return f.with(cmd, func(ctx context.Context, c *percolator.Client) error {
				h, err := findHold(ctx, c, args[0])
				if err == nil {
					h, err = admin.New(c).ExtendHold(ctx, h, ttl)
				}
				if err != nil {
					return err
				}
				return emitHold(cmd, output, h)
			})
		},
	}
	f.add(cmd, defaultCellTimeout)
	output.add(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it lasts from now, at most a week")
	return cmd
}
