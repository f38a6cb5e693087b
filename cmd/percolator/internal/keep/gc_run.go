// Package keep has the commands by which data are kept: collection, the sweep, backups and repairs.
package keep

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

type gcRunFlags struct {
	cli.QueryFlags
	keep          cli.Retention
	consent       cli.Consent
	rowsPerSecond int
}

func NewGCRun() *cobra.Command {
	var f gcRunFlags
	cmd := &cobra.Command{
		Use:     "run",
		PreRunE: func(*cobra.Command, []string) error { return f.keep.Check() },
		RunE:    f.Run(f.collect, f.keep.Configure),
	}
	f.Add(cmd, cli.WalkTimeout)
	f.keep.Add(cmd)
	f.consent.Add(cmd)
	cmd.Flags().IntVar(&f.rowsPerSecond, "rows-per-second", 5000, "rows to read in a second, at most")
	return cmd
}

// gcPlanJSON is what "gc run --dry-run" prints for programs.
type gcPlanJSON struct {
	gcJSON
	Collects bool `json:"collects"` // a cycle would collect something newer, or finish another
}

func (f *gcRunFlags) collect(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
	b, err := admin.New(c).CollectionBounds(ctx)
	if err != nil {
		return err
	}
	if f.consent.DryRun {
		return f.plan(ctx, cmd, c, b)
	}
	if err := f.agree(cmd, b); err != nil {
		return err
	}
	if err := f.consent.Ask(ctx, cmd, "Remove old versions for good? Snapshots up to %s cannot be read any more.", text.At(b.Next)); err != nil {
		return err
	}
	wait, say, end := cli.WaitingLine(cmd, "no client reads the removed versions")
	g, err := admin.New(c).NewCollector(admin.CollectorConfig{RowsPerSecond: f.rowsPerSecond, Waiting: wait.Begin, Progress: func(col admin.Collection) {
		say(fmt.Sprintf("%s %s, %d rows, %d versions removed", col.Phase, col.Page, col.Rows, col.Versions))
	}})
	var col admin.Collection
	if err == nil {
		col, err = g.Collect(ctx)
	}
	end()
	if err != nil {
		return fmt.Errorf("collection, in phase %q (the next one resumes there): %w", col.Phase, err)
	}
	out, err := readGC(ctx, c)
	if err != nil {
		return err
	}
	return f.Output.Emit(cmd.OutOrStdout(), out, out.print)
}

// agree refuses to shorten by mistake how far back snapshots reach: this process does not know the
// retention of the workers.
func (f *gcRunFlags) agree(cmd *cobra.Command, b admin.CollectionBounds) error {
	kept := b.Announced.Sub(b.Safepoint).Round(time.Second)
	given := cmd.Flags().Lookup("retention")
	if b.Safepoint == 0 || given.Changed || given.Value.String() != given.DefValue || kept <= f.keep.Retention+f.keep.Retention/10 {
		return nil
	}
	return cli.Usagef("the last cycle kept %v, more than %v: give --retention %v to keep as much, or another value", kept, f.keep.Retention, kept)
}

func (f *gcRunFlags) plan(ctx context.Context, cmd *cobra.Command, c *percolator.Client, b admin.CollectionBounds) error {
	now, err := readGC(ctx, c)
	if err != nil {
		return err
	}
	unfinished := now.Cycle.Phase != noCycle && now.Cycle.Phase != model.CollectionDone
	out := gcPlanJSON{now, unfinished || b.Next > b.Watermark}
	said := fmt.Sprintf("the safepoint would be %s, %s before now", text.At(b.Next), b.Now.Sub(b.Next).Truncate(time.Second))
	if !out.Collects {
		said = fmt.Sprintf("there is nothing to collect: the GC watermark is %s", text.At(b.Watermark))
	}
	if unfinished {
		said += fmt.Sprintf("\na cycle in phase %s up to %s would be finished first", now.Cycle.Phase, text.At(now.Cycle.Safepoint))
	}
	if b.HeldBy != nil {
		said += fmt.Sprintf("\nheld back by hold %s until %s: %s", b.HeldBy.ID, b.HeldBy.Expires.Time().UTC().Format(time.RFC3339), cli.OrDash(b.HeldBy.Reason))
	}
	return f.Output.EmitText(cmd.OutOrStdout(), out, said)
}
