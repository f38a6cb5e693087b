package keep

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
)

// placeFlags are of commands that need a backup and no instance.
type placeFlags struct {
	out     cli.Output
	timeout time.Duration
}

func (f *placeFlags) add(cmd *cobra.Command, timeout time.Duration) {
	f.out.Add(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", timeout, "how long the command may take")
}

// with opens the place of a backup.
func (f *placeFlags) with(cmd *cobra.Command, args []string, do func(ctx context.Context, s backup.Store) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	store, closeStore, err := cli.OpenPlace(ctx, args[0])
	if err != nil {
		return err
	}
	defer closeStore()
	return do(ctx, store)
}

// onePlace is the Args of these commands.
func onePlace(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("%s needs one argument: a directory or gs://BUCKET/PATH", cmd.CommandPath())
	}
	return nil
}

func newBackupVerify() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:  "verify DEST",
		Args: onePlace,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args, func(ctx context.Context, s backup.Store) error {
				return verifyBackup(ctx, cmd, s, &f.out)
			})
		},
	}
	f.add(cmd, cli.WalkTimeout)
	return cmd
}

func verifyBackup(ctx context.Context, cmd *cobra.Command, s backup.Store, out *cli.Output) error {
	show, end := cli.ShowBar(cmd, "verify", nil)
	v, err := backup.Verify(ctx, s, show)
	end()
	if err != nil {
		return err
	}
	return printVerification(cmd.OutOrStdout(), out, v)
}

// verificationSummary is what is printed of it.
type verificationSummary struct {
	ID       string           `json:"id"`
	Time     time.Time        `json:"snapshotTime"`
	Chunks   int              `json:"chunks"` // that are as they should be
	All      int              `json:"allChunks"`
	Verified backupCounts     `json:"verified"`
	Problems []backup.Problem `json:"problems"`
}

func printVerification(w io.Writer, out *cli.Output, v *backup.Verification) error {
	s := verificationSummary{v.Manifest.ID, v.Manifest.SnapshotTime, v.Chunks, len(v.Manifest.Chunks), backupCounts(v.Verified), append([]backup.Problem{}, v.Problems...)}
	err := out.Emit(w, s, func(w io.Writer) {
		for _, p := range s.Problems {
			_, _ = fmt.Fprintln(w, text.Line(p.Text))
		}
		_, _ = fmt.Fprintf(w, "backup %s: %d of %d chunks are as they should be, with %d rows\n", s.ID, s.Chunks, s.All, s.Verified.Rows)
	})
	return cmp.Or(err, cli.FindingsOf(len(s.Problems), "problem", "the backup is damaged: %s"))
}

func newBackupLs() *cobra.Command {
	var f placeFlags
	var watch cli.WatchFlag
	cmd := &cobra.Command{
		Use:  "ls DEST",
		Args: onePlace,
		RunE: func(cmd *cobra.Command, args []string) error {
			var store backup.Store
			list, err := watch.Applied(cmd, func(ctx context.Context, cmd *cobra.Command, _ *percolator.Client, args []string) error {
				found, err := backup.Describe(ctx, store)
				if err != nil {
					return err
				}
				if found.Complete {
					return summarize(found.Manifest, args[0]).print(cmd.OutOrStdout(), &f.out)
				}
				return printUnfinished(cmd.OutOrStdout(), &f.out, args[0], found)
			}, &f.timeout)
			if err != nil {
				return err
			}
			return f.with(cmd, args, func(ctx context.Context, s backup.Store) error {
				store = s
				return list(ctx, cmd, nil, args)
			})
		},
	}
	f.add(cmd, 5*time.Minute)
	watch.Add(cmd)
	return cmd
}

func printUnfinished(w io.Writer, out *cli.Output, location string, found *backup.Summary) error {
	s := &backupSummary{ID: found.Plan.ID, Source: location, Snapshot: int64(found.Plan.Snapshot), Time: found.Plan.SnapshotTime,
		MissedWeak: found.Plan.MissedWeak, Tables: []backupTableSummary{}, Chunks: found.Progress.Chunks, Total: backupCounts(found.Progress.Counts)}
	return out.Emit(w, s, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "not complete: backup %s, snapshot of %s, %d of %d ranges, %d rows, %s\nthe command that began it goes on with it\n",
			s.ID, s.Time.Format(time.RFC3339), found.Progress.Done, found.Ranges, s.Total.Rows, cli.Bytes(s.Total.Bytes))
	})
}
