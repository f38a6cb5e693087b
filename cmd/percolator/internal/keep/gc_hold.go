package keep

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// holdJSON is a hold in the output for programs.
type holdJSON struct {
	ID        string        `json:"id"`
	Timestamp tso.Timestamp `json:"timestamp"` // what a snapshot here or later reads is kept
	Time      time.Time     `json:"time"`
	Expires   time.Time     `json:"expires"`
	Reason    string        `json:"reason"`

	To tso.Timestamp `json:"to,omitempty"` // with --for-backup: for repair --to
}

func newHoldJSON(h model.Hold) holdJSON {
	return holdJSON{ID: h.ID, Timestamp: h.Timestamp, Time: h.Timestamp.Time().UTC(), Expires: h.Expires.Time().UTC(), Reason: h.Reason}
}

func printHolds(w io.Writer, holds []holdJSON) {
	if len(holds) == 0 {
		_, _ = fmt.Fprintln(w, "no holds")
		return
	}
	t := cli.NewTable(w, "ID", "TIMESTAMP", "TIME", "EXPIRES", "REASON")
	for _, h := range holds {
		t.Row(cli.OrDash(h.ID), int64(h.Timestamp), h.Time.Format(time.RFC3339), h.Expires.Format(time.RFC3339), cli.OrDash(h.Reason))
	}
	t.Flush()
}

// findHold looks a hold up by its id.
func findHold(ctx context.Context, c *percolator.Client, id string) (model.Hold, error) {
	holds, err := admin.New(c).Holds(ctx)
	if err != nil {
		return model.Hold{}, err
	}
	at := slices.IndexFunc(holds, func(h model.Hold) bool { return h.ID == id })
	if at < 0 {
		return model.Hold{}, fmt.Errorf("hold %s: %w: it was released, or has expired; percolator gc hold ls lists them", cli.Shown(id), percolator.ErrNotFound)
	}
	return holds[at], nil
}

func NewHoldLs() *cobra.Command {
	var f cli.ListFlags
	cmd := &cobra.Command{
		Use: "ls",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			holds, err := admin.New(c).Holds(ctx)
			if err != nil {
				return err
			}
			list := ordered.Map(holds, newHoldJSON)
			return f.Output.Emit(cmd.OutOrStdout(), list, func(w io.Writer) { printHolds(w, list) })
		}),
	}
	f.Add(cmd, cli.CellTimeout)
	return cmd
}

func NewHoldTake() *cobra.Command {
	var f cli.QueryFlags
	var at cli.AsOf
	var ttl time.Duration
	var reason string
	var forBackup, replicated bool
	cmd := &cobra.Command{
		Use: "take",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			typed := cmd.Flags().Changed
			switch {
			case forBackup && typed("as-of"):
				return cli.Usagef("--for-backup and --as-of exclude each other")
			case replicated && !forBackup:
				return cli.Usagef("--replicated needs --for-backup")
			case forBackup && !typed("timeout"):
				f.Oracle.Timeout = cli.WalkTimeout
			}
			return cli.AboveZero("ttl", ttl)
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			if forBackup {
				return takeForBackup(ctx, cmd, c, ttl, reason, replicated, &f)
			}
			ts, err := at.Timestamp(ctx, c)
			if err != nil {
				return err
			}
			h, err := admin.New(c).TakeHold(ctx, ts, ttl, reason)
			if err != nil {
				return err
			}
			return emitHold(cmd, f.Output, h)
		}),
	}
	f.Add(cmd, cli.CellTimeout)
	at.Add(cmd)
	cmd.Flags().Lookup("as-of").Usage = "from then on: a time (RFC 3339), a timestamp, or a duration before now such as 10m"
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it lasts, at most a week")
	cmd.Flags().StringVar(&reason, "reason", "", "its purpose, for those who find it")
	cmd.Flags().BoolVar(&forBackup, "for-backup", false, "stop collection, and print the timestamp for a repair of copies that begin after the command")
	cmd.Flags().BoolVar(&replicated, "replicated", false, "with --for-backup: wait until every cluster has all commits up to that timestamp")
	return cmd
}

func emitHold(cmd *cobra.Command, output cli.Output, h model.Hold) error {
	out := newHoldJSON(h)
	return output.Emit(cmd.OutOrStdout(), out, func(w io.Writer) { printHolds(w, []holdJSON{out}) })
}

func NewHoldExtend() *cobra.Command {
	var f cli.QueryFlags
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:     "extend ID",
		PreRunE: func(*cobra.Command, []string) error { return cli.AboveZero("ttl", ttl) },
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			h, err := findHold(ctx, c, args[0])
			if err == nil {
				h, err = admin.New(c).ExtendHold(ctx, h, ttl)
			}
			if err != nil {
				return err
			}
			return emitHold(cmd, f.Output, h)
		}),
	}
	f.Add(cmd, cli.CellTimeout)
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it lasts from now, at most a week")
	return cmd
}

// releasedJSON is what "gc hold release" prints for programs.
type releasedJSON struct {
	holdJSON
	DryRun bool `json:"dryRun"`
}

func NewHoldRelease() *cobra.Command {
	var f cli.QueryFlags
	var consent cli.Consent
	cmd := &cobra.Command{
		Use: "release ID",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			h, err := findHold(ctx, c, args[0])
			if err != nil {
				return err
			}
			did := "would be released"
			if !consent.DryRun {
				if err := consent.Ask(ctx, cmd, "Release the hold at %s (%s)?", text.At(h.Timestamp), cli.OrDash(h.Reason)); err != nil {
					return err
				}
				if err := admin.New(c).ReleaseHold(ctx, h); err != nil {
					return err
				}
				did = "released"
			}
			return f.Output.EmitText(cmd.OutOrStdout(), releasedJSON{newHoldJSON(h), consent.DryRun}, fmt.Sprintf("%s: hold %s at %s", did, h.ID, text.At(h.Timestamp)))
		}),
	}
	f.Add(cmd, cli.CellTimeout)
	consent.Add(cmd)
	return cmd
}
