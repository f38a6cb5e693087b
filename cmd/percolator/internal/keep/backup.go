package keep

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
)

func NewBackup() *cobra.Command {
	var f cli.QueryFlags
	var opts backup.Options
	var at cli.AsOf
	var chunk int64
	cmd := &cobra.Command{
		Use: "backup DEST [TABLE…]",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("backup needs DEST: a directory or gs://BUCKET/PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Tables, opts.ChunkBytes = args[1:], chunk<<20
			return f.With(cmd, func(ctx context.Context, c *percolator.Client) (err error) {
				if opts.AsOf, err = at.Timestamp(ctx, c); err != nil {
					return err
				}
				return makeBackup(ctx, cmd, c, args[0], opts, &f.Output)
			})
		},
	}
	f.Add(cmd, cli.WalkTimeout)
	at.Add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&opts.MissWeak, "miss-weak", false, "skip the wait, and leave out weak notifications that are processed during the backup")
	flags.BoolVar(&opts.Restart, "restart", false, "give up an incomplete backup in DEST, and start over")
	flags.IntVar(&opts.Concurrency, "concurrency", 4, "ranges of rows to read at once")
	flags.Int64Var(&chunk, "chunk", 32, "size of an object before compression, in MiB")
	flags.DurationVar(&opts.HoldTTL, "hold", 6*time.Hour, "how long an interrupted backup can be resumed; collection waits for it")
	cmd.AddCommand(newBackupVerify(), newBackupLs())
	return cmd
}

func makeBackup(ctx context.Context, cmd *cobra.Command, c *percolator.Client, dest string, opts backup.Options, out *cli.Output) error {
	store, closeStore, err := cli.OpenPlace(ctx, dest)
	if err != nil {
		return err
	}
	defer closeStore()
	wait := cli.NewCountdown(cmd, "every client knows of the backup")
	opts.Waiting = wait.Begin
	resumed := false
	show, end := cli.ShowBar(cmd, "backup", wait)
	opts.Progress = func(p backup.Progress) {
		resumed = p.Resumed
		show(p)
	}
	m, err := backup.Run(ctx, c, store, opts)
	end()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the same command resumes within %v: %w", opts.HoldTTL, err)
	}
	if m == nil {
		return err
	}
	s := summarize(m, dest)
	s.Resumed = resumed
	if perr := s.print(cmd.OutOrStdout(), out); err == nil {
		err = perr
	}
	return err
}

// backupSummary is what is printed of a backup.
type backupSummary struct {
	ID         string               `json:"id"`
	Source     string               `json:"location"`
	Complete   bool                 `json:"complete"`
	Resumed    bool                 `json:"resumed"`
	Snapshot   int64                `json:"snapshot"`
	Time       time.Time            `json:"snapshotTime"`
	MissedWeak bool                 `json:"missedWeak"`
	Tables     []backupTableSummary `json:"tables"`
	Chunks     int                  `json:"chunks"`
	Total      backupCounts         `json:"total"`
}

type backupTableSummary struct {
	Name string `json:"name"`
	backupCounts
}

// backupCounts is backup.Counts in the output for programs, whose keys are not those of manifests.
type backupCounts struct {
	Rows     int64 `json:"rows"`
	Values   int64 `json:"values"`
	Deletes  int64 `json:"deletes"`
	Weak     int64 `json:"weak"`
	Notified int64 `json:"notified"`
	RawBytes int64 `json:"rawBytes"` // before compression
	Bytes    int64 `json:"bytes"`    // as stored
}

func summarize(m *backup.Manifest, location string) *backupSummary {
	s := &backupSummary{ID: m.ID, Source: location, Complete: true, Snapshot: int64(m.Snapshot), Time: m.SnapshotTime, MissedWeak: m.MissedWeak,
		Tables: []backupTableSummary{}, Chunks: len(m.Chunks), Total: backupCounts(m.Total)}
	for i, counts := range m.PerTable() {
		s.Tables = append(s.Tables, backupTableSummary{m.Tables[i].Name, backupCounts(counts)})
	}
	return s
}

func (s *backupSummary) print(w io.Writer, out *cli.Output) error {
	return out.Emit(w, s, func(w io.Writer) {
		t := cli.NewTable(w, "TABLE", "ROWS", "VALUES", "NOTIFIED", "STORED")
		for _, table := range s.Tables {
			t.Row(cli.Shown(table.Name), table.Rows, table.Values, table.Notified, cli.Bytes(table.Bytes))
		}
		t.Flush()
		state := "complete"
		if !s.Complete {
			state = "not complete"
		}
		_, _ = fmt.Fprintf(w, "\n%s: backup %s, snapshot of %s, %d chunks, %s\n", state, s.ID, s.Time.Format(time.RFC3339), s.Chunks, cli.Bytes(s.Total.Bytes))
		if s.MissedWeak {
			_, _ = fmt.Fprintln(w, "weak notifications that were run for after the snapshot may be missing")
		}
	})
}
