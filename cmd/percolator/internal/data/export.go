package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/export"
)

func NewExport() *cobra.Command {
	var f cli.QueryFlags
	var o export.Options
	var at cli.AsOf
	var part int64
	cmd := &cobra.Command{
		Use: "export TABLE DEST [COLUMN…]",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) (err error) {
			o.Table, o.Columns, o.PartBytes = args[0], args[2:], part<<20
			if o.AsOf, err = at.Timestamp(ctx, c); err != nil {
				return err
			}
			place, closePlace, err := cli.OpenPlace(ctx, args[1])
			if err != nil {
				return err
			}
			defer closePlace()
			m, err := export.Run(ctx, c, place, o)
			if errors.Is(err, export.ErrComplete) {
				return fmt.Errorf("%w: choose another place than %s, or delete its files", err, args[1])
			}
			if err != nil && ctx.Err() != nil {
				return fmt.Errorf("%w; the export is not complete: the same command starts it over, and removes its files from %s", err, args[1])
			}
			if err != nil {
				return err
			}
			return printExport(cmd.OutOrStdout(), &f.Output, args[1], m)
		}),
	}
	f.Add(cmd, cli.WalkTimeout)
	at.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar((*string)(&o.Format), "format", string(export.Parquet), "parquet, jsonl or csv")
	flags.StringVar(&o.Key, "key", "", "name of the row key's field: of jsonl, whose lines are flat then, and of csv (row)")
	flags.IntVar(&o.Concurrency, "concurrency", 4, "ranges of rows to read at once")
	flags.Int64Var(&part, "part", 64, "size of a file before compression, in MiB")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(ordered.Map(export.Formats, func(f export.Format) string { return string(f) }), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// exportJSON is what "export" prints for programs.
type exportJSON struct {
	Table        string    `json:"table"`
	Location     string    `json:"location"`
	Format       string    `json:"format"`
	Snapshot     int64     `json:"snapshot"`
	SnapshotTime time.Time `json:"snapshotTime"`
	Files        int       `json:"files"`
	export.Counts
}

func printExport(w io.Writer, out *cli.Output, location string, m *export.Manifest) error {
	s := exportJSON{m.Table, location, string(m.Format), int64(m.Snapshot), m.SnapshotTime, len(m.Parts), m.Total}
	return out.Emit(w, s, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "%s at %s: %d rows, %d values in %d files, %s\n", cli.Shown(m.Table), m.SnapshotTime.Format(time.RFC3339), s.Rows, s.Values, s.Files, cli.Bytes(s.Bytes))
		if s.Mistyped > 0 {
			_, _ = fmt.Fprintf(w, "%d values are not of the declared type of their column\n", s.Mistyped)
		}
	})
}
