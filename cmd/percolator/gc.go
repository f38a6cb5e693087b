package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

func newGC() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Look at the collection of old versions, run it, and hold it back",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGCStatus(), newGCRun(), newGCHold())
	return cmd
}

// retentionFlag is how far back snapshots are to reach.
type retentionFlag struct{ retention time.Duration }

func (f *retentionFlag) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.retention, "retention", time.Hour, "how far back snapshots are to reach; that of the workers")
	bindEnv(cmd.Flags(), "retention", "PERCOLATOR_RETENTION")
}

func (f *retentionFlag) check() error {
	if f.retention < time.Minute {
		return usagef("--retention %v is less than a minute", f.retention)
	}
	return nil
}

func (f *retentionFlag) configure(cfg *percolator.Config) { cfg.Retention = f.retention }
