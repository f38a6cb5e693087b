package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/summary"
	"github.com/gopercolator/percolator/cmd/webindex/verify"
	"github.com/gopercolator/percolator/percolator"
)

// maxListed is how many differences are printed. The others are counted.
const maxListed = 200

var errDifferences = errors.New("the index differs from what the raw pages say")

func newVerifyCommand(a *app) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the index from the raw pages, and compare",
		Long: `Verify recomputes clusters, ranks, canonical URLs, anchor texts and everything that the search page reads from the raw
pages of one snapshot, and prints whatever is different in the store. Wait for the workers first ("webindex worker
--until-idle"): what they have not done yet is a difference.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), a.log, func(client *percolator.Client) error {
				m := startMeter(client)
				verified, err := a.verify(cmd.Context(), client)
				s := m.stop(summary.Summary{Verified: verified})
				if verified != nil {
					err = errors.Join(err, describeIndex(cmd.Context(), client, 0, s))
				}
				return errors.Join(err, a.summarize(s))
			})
		},
	}
	t.addFlags(cmd)
	return cmd
}

// verify prints the differences. The error is errDifferences if there are any.
func (a *app) verify(ctx context.Context, client *percolator.Client) (*summary.Verified, error) {
	start := time.Now()
	var found int
	err := client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) (err error) {
		listed := 0
		found, err = verify.Run(ctx, snap, func(d verify.Difference) {
			if listed++; listed <= maxListed {
				fmt.Fprintln(a.stdout, d)
			}
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if found > maxListed {
		fmt.Fprintf(a.stdout, "… and %d more\n", found-maxListed)
	}
	v := &summary.Verified{Differences: found, VerifySeconds: time.Since(start).Seconds()}
	if found > 0 {
		return v, errDifferences
	}
	return v, nil
}
