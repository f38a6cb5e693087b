package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

// retentionFlag is how far back snapshots are to reach.
type retentionFlag struct{ retention time.Duration }

func (f *retentionFlag) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.retention, "retention", time.Hour, "how far back snapshots are to reach; that of the workers [$PERCOLATOR_RETENTION]")
}

func (f *retentionFlag) check() error {
	if f.retention < time.Minute {
		return usagef("--retention %v is less than a minute", f.retention)
	}
	return nil
}

func (f *retentionFlag) configure(cfg *percolator.Config) { cfg.Retention = f.retention }
