package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// AsOf chooses the snapshot that a command reads.
type AsOf struct{ text string }

// Add adds --as-of.
func (f *AsOf) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "as-of", "", `read as of a time (RFC 3339), a timestamp, or a duration before now such as 10m`)
}

// Reading is a client's configuration for commands that only read. How far back they may is for the
// announced safepoint to say: the retention of this process, which removes nothing, knows nothing
// of that of the workers.
func Reading(cfg *percolator.Config) { cfg.Retention = 100 * 365 * 24 * time.Hour }

// option returns nothing if the flag was not given.
func (f *AsOf) option(ctx context.Context, c *percolator.Client) ([]percolator.ReadOption, error) {
	ts, err := f.Timestamp(ctx, c)
	if err != nil || ts == 0 {
		return nil, err
	}
	return []percolator.ReadOption{percolator.AsOfTimestamp(ts)}, nil
}

// View calls do with the snapshot.
func (f *AsOf) View(ctx context.Context, c *percolator.Client, do func(ctx context.Context, s *percolator.Snapshot) error) error {
	opts, err := f.option(ctx, c)
	if err != nil {
		return err
	}
	return c.View(ctx, do, opts...)
}

// Timestamp returns 0 if the flag was not given.
func (f *AsOf) Timestamp(ctx context.Context, c *percolator.Client) (tso.Timestamp, error) {
	if f.text == "" {
		return 0, nil
	}
	ts, before, err := ParseAsOf(f.text)
	if err != nil || before == 0 {
		return ts, err
	}
	now, err := admin.New(c).Oracle().Next(ctx)
	return max(now.Add(-before), 1), err
}

// ParseAsOf returns a timestamp, or how long before the oracle's present it is.
func ParseAsOf(text string) (ts tso.Timestamp, before time.Duration, err error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return tso.Timestamp(n), 0, nil
	}
	if at, err := values.ParseTime(time.RFC3339Nano, text); err == nil {
		// If this is before the first timestamp, the client says that it is too old.
		return max(tso.At(at), 1), 0, nil
	}
	if d, err := time.ParseDuration(strings.TrimSuffix(text, " ago")); err == nil && d > 0 {
		return 0, d, nil
	}
	return 0, 0, Usagef("--as-of %q is neither a time like 2026-01-02T15:04:05Z, nor a timestamp, nor a duration like 10m", text)
}

// Retention is how far back snapshots are to reach.
type Retention struct{ Retention time.Duration }

// Add adds --retention.
func (f *Retention) Add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.Retention, "retention", time.Hour, "how far back snapshots reach; that of the workers [$PERCOLATOR_RETENTION]")
}

// Check refuses a retention that no worker has.
func (f *Retention) Check() error {
	if f.Retention < time.Minute {
		return Usagef("--retention %v is less than a minute", f.Retention)
	}
	return nil
}

// Configure has a client use the retention.
func (f *Retention) Configure(cfg *percolator.Config) { cfg.Retention = f.Retention }
