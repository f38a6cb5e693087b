package change

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// backfillJSON is what "schema backfill" prints for programs.
type backfillJSON struct {
	Table     string        `json:"table"`
	Index     string        `json:"index"`
	Cells     int64         `json:"cells"`
	Written   int64         `json:"written"`
	Removed   int64         `json:"removed"`
	Conflicts int64         `json:"conflicts"`
	Resumed   bool          `json:"resumed"`
	Since     tso.Timestamp `json:"since"` // the index serves snapshots from here on; 0: all
}

func (b backfillJSON) String() string {
	resumed := ""
	if b.Resumed {
		resumed = ", going on where an earlier run ended"
	}
	if b.Since == 0 {
		return "ready, and always was"
	}
	return fmt.Sprintf("ready since %s; %d cells, %d entries written, %d removed%s", text.At(b.Since), b.Cells, b.Written, b.Removed, resumed)
}

func NewSchemaBackfill() *cobra.Command {
	var f cli.QueryFlags
	var opts admin.BackfillOptions
	cmd := &cobra.Command{
		Use: "backfill TABLE INDEX",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			report, err := backfillIndex(ctx, cmd, c, args[0], args[1], opts)
			if err != nil {
				return err
			}
			return f.Output.EmitText(cmd.OutOrStdout(), report, report.String())
		}),
	}
	f.Add(cmd, cli.WalkTimeout)
	cmd.Flags().IntVar(&opts.Concurrency, "concurrency", 4, "how many transactions commit entries at once, at most 64")
	cmd.Flags().IntVar(&opts.RowsPerTransaction, "rows-per-transaction", 128, "rows that one transaction looks at, at most 1000")
	cmd.Flags().DurationVar(&opts.Pause, "pause", 0, "pause between two transactions, to leave room for others")
	return cmd
}

func backfillIndex(ctx context.Context, cmd *cobra.Command, c *percolator.Client, table, index string, opts admin.BackfillOptions) (backfillJSON, error) {
	wait, say, end := cli.WaitingLine(cmd, "every client writes the index")
	opts.Wait = wait.Wait
	opts.Progress = func(p admin.BackfillProgress) {
		say(fmt.Sprintf("%s.%s: %s, %d cells, %d entries written", table, index, p.Phase, p.Cells, p.Written))
	}
	r, err := admin.New(c).BackfillIndex(ctx, table, index, opts)
	end()
	switch {
	case err != nil && r.Phase == "": // not started
		return backfillJSON{}, err
	case err != nil:
		return backfillJSON{}, fmt.Errorf("after %d cells (the same command resumes there): %w", r.Cells, err)
	}
	return backfillJSON{table, index, r.Cells, r.Written, r.Removed, r.Conflicts, r.Resumed, r.Since}, nil
}
