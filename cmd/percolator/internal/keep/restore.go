package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
)

func NewRestore() *cobra.Command {
	var f cli.QueryFlags
	var opts backup.RestoreOptions
	var dryRun, yes, abandon bool
	cmd := &cobra.Command{
		Use: "restore SRC",
		Args: func(_ *cobra.Command, args []string) error {
			if abandon && len(args) == 0 {
				return nil
			}
			if abandon || len(args) != 1 {
				return cli.Usagef("restore needs SRC, a directory or gs://BUCKET/PATH, or --abandon")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.Oracle.Timeout)
			defer cancel()
			if abandon {
				return abandonRestore(cmd, f.DataFlags, yes)
			}
			store, closeStore, err := cli.OpenPlace(ctx, args[0])
			if err != nil {
				return err
			}
			defer closeStore()
			m, schema, err := backup.Prepared(ctx, store)
			if err != nil {
				return err
			}
			if err := checkTarget(ctx, f.InstanceName, schema); err != nil {
				return err
			}
			if dryRun {
				return verifyBackup(ctx, cmd, store, &f.Output)
			}
			if err := cli.Ask(ctx, cmd, yes, "Restore %d rows of the backup of %s into %s/%s? No client can use the instance until the restore has ended.",
				m.Total.Rows, m.SnapshotTime.Format(time.RFC3339), f.Project, f.Instance); err != nil {
				return err
			}
			if err := backup.PrepareRestore(ctx, admin.Instance{Project: f.Project, ID: f.Instance, AppProfile: f.AppProfile, Options: cli.BigtableOptions(ctx)}, m.ID, schema); err != nil {
				return err
			}
			return f.With(cmd, func(ctx context.Context, c *percolator.Client) error {
				return restoreBackup(ctx, cmd, c, store, args[0], opts, &f.Output)
			})
		},
	}
	f.Add(cmd, cli.WalkTimeout)
	flags := cmd.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "verify the backup, look at the schema of the instance, and write nothing")
	flags.BoolVar(&yes, "yes", false, "do not ask")
	flags.BoolVar(&abandon, "abandon", false, "without SRC: give up an unfinished restore, once all tables are empty")
	flags.IntVar(&opts.Concurrency, "concurrency", 4, "objects to restore at once")
	return cmd
}

// abandonRestore is --abandon.
func abandonRestore(cmd *cobra.Command, f cli.DataFlags, yes bool) error {
	return f.With(cmd, func(ctx context.Context, c *percolator.Client) error {
		if err := cli.Ask(ctx, cmd, yes, "Abandon the restore into %s/%s? Afterwards all clients can use the instance, with empty tables.", f.Project, f.Instance); err != nil {
			return err
		}
		if err := backup.AbandonRestore(ctx, c); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no restore is unfinished")
		return err
	})
}

// checkTarget refuses an instance with another schema before asking.
func checkTarget(ctx context.Context, f cli.InstanceName, schema *percolator.Schema) error {
	stored, err := f.ReadSchema(ctx)
	switch {
	case errors.Is(err, percolator.ErrSchemaMismatch): // it has no percolator_meta
		return nil
	case err != nil:
		return err
	case stored.Schema != nil && !sameSchema(stored.Schema, schema):
		return fmt.Errorf("%w: %s/%s has another schema than the backup; restore into an instance without one", percolator.ErrSchemaMismatch, f.Project, f.Instance)
	}
	return nil
}

// sameSchema leaves out the timing where that of the backup is the default one: it goes by what is
// stored.
func sameSchema(stored, backup *percolator.Schema) bool {
	want := *backup
	if want.Timing == (percolator.Timing{}) {
		want.Timing = stored.Timing
	}
	return string(admin.EncodeSchema(stored)) == string(admin.EncodeSchema(&want))
}

func restoreBackup(ctx context.Context, cmd *cobra.Command, c *percolator.Client, store backup.Store, source string, opts backup.RestoreOptions, out *cli.Output) error {
	wait := cli.NewCountdown(cmd, "every client knows of the restore")
	opts.Waiting = wait.Begin
	show, end := cli.ShowBar(cmd, "restore", wait)
	opts.Progress = show
	report, err := backup.Restore(ctx, c, store, opts)
	end()
	switch {
	case err == nil:
	case errors.Is(err, admin.ErrNotEmpty), errors.Is(err, admin.ErrRestoring):
		return err
	default:
		return fmt.Errorf("the instance is not usable until the restore has ended; the same command resumes it: %w", err)
	}
	s := summarize(report.Manifest, source)
	s.Resumed = report.Resumed
	return out.Emit(cmd.OutOrStdout(), s, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "restored: backup %s, snapshot of %s, %d rows with %d values, %d cells notified\n",
			s.ID, s.Time.Format(time.RFC3339), s.Total.Rows, s.Total.Values, s.Total.Notified)
		for _, name := range report.Manifest.IncompleteIndexes {
			_, _ = fmt.Fprintln(w, text.Line(cli.ToBackfill(name)))
		}
	})
}
