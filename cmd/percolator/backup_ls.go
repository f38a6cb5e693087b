package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator/backup"
)

func newBackupLs() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "ls DEST",
		Short: "Tell what is in a backup, complete or not",
		Long: `Tell what is in a backup, complete or not.

Only the manifest is read, or what an interrupted backup has left; see "backup verify"
for the rest. No instance is needed.`,
		Example: `  percolator backup ls /backups/2026-11-21`,
		Args:    onePlace,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args, func(ctx context.Context, s backup.Store) error {
				found, err := backup.Describe(ctx, s)
				if err != nil {
					return err
				}
				if found.Complete {
					return summarize(found.Manifest, args[0]).print(cmd.OutOrStdout(), &f.out)
				}
				return printUnfinished(cmd.OutOrStdout(), &f.out, args[0], found)
			})
		},
	}
	f.add(cmd, 5*time.Minute)
	return cmd
}

func printUnfinished(w io.Writer, out *outputFlag, location string, found *backup.Summary) error {
	s := &backupSummary{ID: found.Plan.ID, Source: location, Snapshot: int64(found.Plan.Snapshot), Time: found.Plan.SnapshotTime,
		MissedWeak: found.Plan.MissedWeak, Tables: []backupTableSummary{}, Chunks: found.Progress.Chunks, Total: found.Progress.Counts}
	return out.emit(w, s, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "not complete: backup %s, snapshot of %s, %d of %d ranges, %d rows, %s\nthe command that began it goes on with it\n",
			s.ID, s.Time.Format(time.RFC3339), found.Progress.Done, found.Ranges, s.Total.Rows, bytesShown(s.Total.Bytes))
		return err
	})
}
