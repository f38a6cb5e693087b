package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newHoldTake() *cobra.Command {
	var f queryFlags
	var at asOfFlag
	var ttl time.Duration
	var reason string
	cmd := &cobra.Command{
		Use:   "take",
		Short: "Keep what snapshots from now on read, or from an earlier time on",
		Long: `Keep what snapshots from now on read, or from an earlier time on: nothing of it is collected
before the hold expires or is released. Everybody can then read --as-of its timestamp.

Old versions pile up meanwhile: take no longer than you need, and extend it instead.`,
		Example: `  percolator gc hold take --reason "export of June" --ttl 3h
  percolator gc hold take --as-of 30m -o json | jq -r .id`,
		Args:    noArgs,
		PreRunE: func(*cobra.Command, []string) error { return checkTTL(ttl) },
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			ts, err := at.timestamp(ctx, c)
			if err != nil {
				return err
			}
			h, err := admin.New(c).TakeHold(ctx, ts, ttl, reason)
			if err != nil {
				return err
			}
			return emitHold(cmd, f.output, h)
		}),
	}
	f.add(cmd, defaultCellTimeout)
	at.add(cmd)
	cmd.Flags().Lookup("as-of").Usage = "from then on: a time (RFC 3339), a timestamp, or a duration before now such as 10m"
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it lasts, at most a week")
	cmd.Flags().StringVar(&reason, "reason", "", "what it is for, for the people who find it")
	return cmd
}

func emitHold(cmd *cobra.Command, output outputFlag, h admin.Hold) error {
	out := newHoldJSON(h)
	return output.emit(cmd.OutOrStdout(), out, func(w io.Writer) error { return printHolds(w, []holdJSON{out}) })
}
