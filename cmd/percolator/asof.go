package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// asOfFlag chooses the snapshot that a command reads.
type asOfFlag struct{ text string }

func (f *asOfFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "as-of", "", `read as of a time (RFC 3339), a timestamp, or a duration before now such as 10m`)
}

// reading is a client's configuration for commands that only read. How far back they may is for the
// announced safepoint to say: the retention of this process, which removes nothing, knows nothing
// of that of the workers.
func reading(cfg *percolator.Config) { cfg.Retention = 100 * 365 * 24 * time.Hour }

// option returns nothing if the flag was not given.
func (f *asOfFlag) option(ctx context.Context, c *percolator.Client) ([]percolator.ReadOption, error) {
	ts, err := f.timestamp(ctx, c)
	if err != nil || ts == 0 {
		return nil, err
	}
	return []percolator.ReadOption{percolator.AsOfTimestamp(ts)}, nil
}

// view calls do with the snapshot.
func (f *asOfFlag) view(ctx context.Context, c *percolator.Client, do func(ctx context.Context, s *percolator.Snapshot) error) error {
	opts, err := f.option(ctx, c)
	if err != nil {
		return err
	}
	return c.View(ctx, do, opts...)
}

// timestamp returns 0 if the flag was not given.
func (f *asOfFlag) timestamp(ctx context.Context, c *percolator.Client) (tso.Timestamp, error) {
	if f.text == "" {
		return 0, nil
	}
	ts, before, err := parseAsOf(f.text)
	if err != nil || before == 0 {
		return ts, err
	}
	now, err := admin.New(c).Oracle().Next(ctx)
	return max(now.Add(-before), 1), err
}

// parseAsOf returns a timestamp, or how long before the oracle's present it is.
func parseAsOf(text string) (ts tso.Timestamp, before time.Duration, err error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return tso.Timestamp(n), 0, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		// If this is before the first timestamp, the client says that it is too old.
		return max(tso.At(at), 1), 0, nil
	}
	if d, err := time.ParseDuration(strings.TrimSuffix(text, " ago")); err == nil && d > 0 {
		return 0, d, nil
	}
	return 0, 0, usagef("--as-of %q is neither a time like 2026-01-02T15:04:05Z, nor a timestamp, nor a duration like 10m", text)
}
