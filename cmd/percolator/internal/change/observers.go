package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// walkFlags are those of the commands that go through a table for an observer.
type walkFlags struct {
	cli.QueryFlags
	opts    admin.ObserverOptions
	yes     bool
	awaited bool // the command needs a worker that runs the observer
}

// walkJSON is what such a command prints for programs.
type walkJSON struct {
	Rows    int64 `json:"rows"`    // looked at, of those that have the column
	Changed int64 `json:"changed"` // notified, or freed of an acknowledgment
	Resumed bool  `json:"resumed"` // an earlier run had started
	DryRun  bool  `json:"dryRun"`
	Running *bool `json:"running,omitempty"` // a worker announces the observer; absent where it does not matter
}

func (f *walkFlags) add(cmd *cobra.Command) {
	f.QueryFlags.Add(cmd, cli.WalkTimeout)
	cmd.Flags().BoolVar(&f.opts.DryRun, "dry-run", false, "only count the rows that would be changed")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().IntVar(&f.opts.RowsPerPage, "rows-per-page", 1000, "rows of one request")
	cmd.Flags().DurationVar(&f.opts.Pause, "pause", 0, "pause between two pages, to leave room for others")
}

// walk is admin.Admin.BackfillObserver or ForgetObserver.
type walk func(a *admin.Admin, ctx context.Context, table, column, observer string, opts admin.ObserverOptions) (admin.ObserverProgress, error)

// run is the RunE of a walk, with a bar on a terminal.
func (f *walkFlags) run(did string, which walk) func(*cobra.Command, []string) error {
	return f.DataFlags.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
		opts, out := f.opts, walkJSON{DryRun: f.opts.DryRun}
		if f.awaited {
			workers, err := look.RunningWorkers(ctx, c)
			if err != nil {
				return err
			}
			out.Running = new(slices.ContainsFunc(workers, func(w model.WorkerInfo) bool { return slices.Contains(w.Observers, args[2]) }))
			certain := *out.Running || f.yes || opts.DryRun || !observes(c, args[0], args[1]) // the walk refuses that
			if err := cli.Ask(ctx, cmd, certain, "No worker runs observer %s now. Notify for it?", args[2]); err != nil {
				return err
			}
		}
		bar, done := cli.WalkBar(cmd)
		opts.Count, opts.Progress = bar != nil, bar
		p, err := which(admin.New(c), ctx, args[0], args[1], args[2], opts)
		done()
		text := fmt.Sprintf("%d rows, %d %s", p.Rows, p.Changed, did)
		if opts.DryRun {
			text = fmt.Sprintf("%d rows, %d would be %s", p.Rows, p.Changed, did)
		}
		if p.Resumed {
			text += ", going on where an earlier run ended"
		}
		if err != nil && p.Rows == 0 {
			return err
		}
		if err != nil {
			return fmt.Errorf("after %d rows (the same command resumes there): %w", p.Rows, err)
		}
		out.Rows, out.Changed, out.Resumed = p.Rows, p.Changed, p.Resumed
		if f.awaited && !*out.Running {
			text += fmt.Sprintf("; no worker runs %s now, and notifications wait until one does", args[2])
		}
		return f.Output.EmitText(cmd.OutOrStdout(), out, text)
	})
}

func observes(c *percolator.Client, table, column string) bool {
	return slices.ContainsFunc(c.Schema().Tables, func(t percolator.Table) bool {
		return t.Name == table && (slices.Contains(t.Observed, column) || slices.Contains(t.Weak, column))
	})
}

func NewObserversBackfill() *cobra.Command {
	f := walkFlags{awaited: true}
	cmd := &cobra.Command{
		Use:  "backfill TABLE COLUMN OBSERVER",
		RunE: f.run("notified", (*admin.Admin).BackfillObserver),
	}
	f.add(cmd)
	return cmd
}

func NewObserversForget() *cobra.Command {
	var f walkFlags
	cmd := &cobra.Command{
		Use: "forget TABLE COLUMN OBSERVER",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			return cli.Ask(cmd.Context(), cmd, f.yes || f.opts.DryRun, "Delete the acknowledgments of observer %s for column %s of table %s?", args[2], args[1], args[0])
		},
		RunE: f.run("freed of their acknowledgments", (*admin.Admin).ForgetObserver),
	}
	f.add(cmd)
	return cmd
}
