package keep

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// SweepJSON is what "sweep" prints for programs.
type SweepJSON struct {
	Built         bool  `json:"built"` // the journal, which was building
	Rows          int64 `json:"rows"`  // read
	Announced     int64 `json:"announced"`
	Locks         int64 `json:"locks"`
	Notifications int64 `json:"notifications"`
	Corrupt       int64 `json:"corrupt"`
	Orphans       int64 `json:"orphans"`
	Missed        struct {
		Locks         int64 `json:"locks"`
		Notifications int64 `json:"notifications"`
		Garbage       int64 `json:"garbage"`
	} `json:"missed"`
}

func NewSweepJSON(s model.Sweep) SweepJSON {
	out := SweepJSON{
		Built: s.Building != "", Rows: s.Rows, Announced: s.Announced, Locks: s.Locks,
		Notifications: s.Notifications, Corrupt: s.Corrupt, Orphans: s.Orphans,
	}
	out.Missed.Locks, out.Missed.Notifications, out.Missed.Garbage = s.Missed.Locks, s.Missed.Notifications, s.Missed.Garbage
	return out
}

func (s SweepJSON) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%d rows read, %d announced; %d locks resolved, %d notifications dispatched, %d cells corrupt, %d orphans\n",
		s.Rows, s.Announced, s.Locks, s.Notifications, s.Corrupt, s.Orphans)
	if s.Built {
		_, _ = fmt.Fprintln(w, "the journal is ready")
		return
	}
	_, _ = fmt.Fprintf(w, "missed by the journal: %d locks, %d notifications, garbage in %d rows\n", s.Missed.Locks, s.Missed.Notifications, s.Missed.Garbage)
}

func NewSweep() *cobra.Command {
	var f cli.QueryFlags
	rowsPerSecond := 0
	cmd := &cobra.Command{
		Use: "sweep",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			if err := cli.AboveZero("rows-per-second", rowsPerSecond); err != nil {
				return err
			}
			done, err := Sweep(ctx, cmd, c, rowsPerSecond)
			if err != nil {
				return err
			}
			out := NewSweepJSON(done)
			return cmp.Or(f.Output.Emit(cmd.OutOrStdout(), out, out.Print),
				cli.FindingsOf(done.Missed.Sum(), "place", "the journal did not lead to %s that the sweep has found"))
		}),
	}
	f.Add(cmd, cli.WalkTimeout)
	cmd.Flags().IntVar(&rowsPerSecond, "rows-per-second", 5000, "rows to read in a second, at most")
	return cmd
}

func Sweep(ctx context.Context, cmd *cobra.Command, c *percolator.Client, rowsPerSecond int) (model.Sweep, error) {
	say, end := cli.StatusLine(cmd)
	w, err := admin.New(c).NewSweeper(model.SweepConfig{RowsPerSecond: rowsPerSecond, Progress: func(s model.Sweep) {
		say(fmt.Sprintf("%s %s, %d rows read, %d announced", s.Phase, s.Table, s.Rows, s.Announced))
	}})
	var done model.Sweep
	if err == nil {
		done, err = w.Sweep(ctx)
	}
	end()
	switch {
	case err != nil && done.Phase == "": // not started
		return done, err
	case err != nil:
		return done, fmt.Errorf("sweep, in phase %q (the next one resumes there): %w", done.Phase, err)
	}
	return done, nil
}
