package change

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// dropFirst drops what the plan says that the schema lacks, if there is nothing else in the way,
// and returns the plan of what is left to do.
func (f *applyFlags) dropFirst(ctx context.Context, cmd *cobra.Command, s *percolator.Schema, plan model.SchemaPlan, what io.Writer) (model.SchemaPlan, error) {
	dropped := slices.ContainsFunc(plan.Changes, model.SchemaChange.Droppable)
	refused := slices.ContainsFunc(plan.Changes, func(ch model.SchemaChange) bool { return ch.Err() != nil && !ch.Droppable() })
	if refused || !dropped && len(plan.Stored.Dropping) == 0 {
		return plan, nil
	}
	printDrop(what, plan)
	if f.consent.DryRun {
		_, _ = fmt.Fprintln(what, "this would delete all of this, with its data")
		plan.Changes = slices.DeleteFunc(plan.Changes, model.SchemaChange.Droppable)
		return plan, nil
	}
	if err := f.consent.Ask(ctx, cmd, "Delete all of this, with its data, from %s/%s? This cannot be undone.", f.Project, f.Instance); err != nil {
		return plan, err
	}
	err := f.With(cmd, func(ctx context.Context, c *percolator.Client) error {
		wait, say, end := cli.WaitingLine(cmd, "no process writes to anything that is dropped")
		defer end()
		deleted, err := admin.New(c).DropFromSchema(ctx, s, admin.DropOptions{
			ClientOptions: cli.BigtableOptions(ctx), Wait: wait.Wait, Progress: func(p admin.DropPhase) { say("drop: " + string(p)) },
		})
		if err != nil {
			return fmt.Errorf("unfinished (the same command goes on): %w", err)
		}
		if len(deleted) > 0 {
			_, err = fmt.Fprintf(what, "deleted from Bigtable: %s\n", strings.Join(ordered.Map(deleted, cli.Shown), ", "))
		}
		return err
	})
	if err != nil {
		return plan, err
	}
	f.dropped = true
	return f.PlanSchema(ctx, s)
}

// printDrop prints the plan of an apply with --drop, which refuses nothing that it can drop.
func printDrop(w io.Writer, plan model.SchemaPlan) {
	for _, parts := range planParts(plan) {
		line := changeLine(parts...)
		if parts[0].Droppable() {
			line = strings.TrimSuffix(line, "  (refused)")
		}
		_, _ = fmt.Fprintln(w, line)
	}
}
