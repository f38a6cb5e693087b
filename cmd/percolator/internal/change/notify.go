package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// parkedFlags choose parked cells: one by its name, or all of an observer's, or all.
type parkedFlags struct {
	cli.QueryFlags
	all      bool
	observer string
	dryRun   bool
}

const parkedArgs = "[TABLE ROW COLUMN OBSERVER]"

func (f *parkedFlags) add(cmd *cobra.Command) {
	f.QueryFlags.Add(cmd, cli.DataTimeout)
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "every parked cell")
	flags.StringVar(&f.observer, "observer", "", "every parked cell of this observer")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
}

func (f *parkedFlags) check(cmd *cobra.Command, args []string) error {
	ways := 0
	for _, way := range []bool{len(args) > 0, f.all, f.observer != ""} {
		if way {
			ways++
		}
	}
	if ways != 1 || len(args) != 0 && len(args) != 4 {
		return cli.Usagef("%s takes a table, a row, a column and an observer, or --observer, or --all", cmd.CommandPath())
	}
	return nil
}

// choose lists what is parked and was asked for.
func (f *parkedFlags) choose(ctx context.Context, c *percolator.Client, args []string) ([]observers.Parked, error) {
	observer, err := cli.FromShown(f.observer)
	if err != nil {
		return nil, err
	}
	tables := args[:min(1, len(args))]
	var chosen []observers.Parked
	var parkedHere []string // observers
	for p, err := range observers.ListParked(ctx, c, tables...) {
		if err != nil {
			return nil, err
		}
		if len(args) > 0 && slices.Equal(args[:3], []string{p.Cell.Table, p.Cell.Row, p.Cell.Column}) {
			parkedHere = append(parkedHere, p.Observer)
		}
		if len(args) > 0 && !slices.Equal(args, []string{p.Cell.Table, p.Cell.Row, p.Cell.Column, p.Observer}) ||
			f.observer != "" && p.Observer != observer {
			continue
		}
		chosen = append(chosen, p)
	}
	if len(args) > 0 && len(chosen) == 0 {
		cell := percolator.Cell{Table: args[0], Row: args[1], Column: args[2]}
		hint := cmp.Or(cli.ColumnHint(c, cell.Table, cell.Column), text.DidYouMean(args[3], parkedHere...), "; percolator notify ls shows what is")
		return nil, fmt.Errorf("%w: observer %s is not parked on %s%s", percolator.ErrNotFound, cli.Shown(args[3]), cli.CellText(cell), hint)
	}
	return chosen, nil
}

// run is the RunE of a command that does something with what was chosen, and that agree may stop.
func (f *parkedFlags) run(
	did string, agree func(ctx context.Context, cmd *cobra.Command, n int) error, do func(ctx context.Context, c *percolator.Client, p observers.Parked) error,
) func(*cobra.Command, []string) error {
	return f.DataFlags.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
		chosen, err := f.choose(ctx, c, args)
		if err != nil {
			return err
		}
		if err := agree(ctx, cmd, len(chosen)); err != nil {
			return err
		}
		return f.each(cmd, chosen, did, func(p observers.Parked) error { return do(ctx, c, p) })
	})
}

// handledJSON is what "notify retry" and "notify drop" print for programs.
type handledJSON struct {
	Done   string       `json:"done"` // retried or dropped
	DryRun bool         `json:"dryRun"`
	Cells  []parkedCell `json:"cells"`
}

// each does something with every chosen cell and says so. What has changed meanwhile does not keep
// it from the others.
func (f *parkedFlags) each(cmd *cobra.Command, chosen []observers.Parked, did string, do func(p observers.Parked) error) error {
	var changed, failed error
	out := handledJSON{Done: did, DryRun: f.dryRun, Cells: []parkedCell{}}
	if f.dryRun {
		did = "would be " + did
	}
	for _, p := range chosen {
		if !f.dryRun {
			if err := do(p); errors.Is(err, percolator.ErrConflict) {
				changed = errors.Join(changed, err)
				continue
			} else if failed = err; failed != nil {
				break
			}
		}
		out.Cells = append(out.Cells, newParkedCell(p))
		if !f.Output.IsJSON() {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: observer %s on %s\n", did, cli.Shown(p.Observer), cli.CellText(p.Cell))
		}
	}
	err := f.Output.EmitText(cmd.OutOrStdout(), out, fmt.Sprintf("%d %s", len(out.Cells), did))
	return errors.Join(changed, failed, err)
}

func NewNotifyRetry() *cobra.Command {
	var f parkedFlags
	cmd := &cobra.Command{
		Use:     "retry " + parkedArgs,
		PreRunE: f.check,
		RunE:    f.run("retried", func(context.Context, *cobra.Command, int) error { return nil }, observers.Retry),
	}
	f.add(cmd)
	return cmd
}

func NewNotifyDrop() *cobra.Command {
	var f parkedFlags
	var yes bool
	cmd := &cobra.Command{
		Use:     "drop " + parkedArgs,
		PreRunE: f.check,
		RunE: f.run("dropped", func(ctx context.Context, cmd *cobra.Command, n int) error {
			return cli.Ask(ctx, cmd, yes || f.dryRun || n == 0, "Drop %s? This cannot be undone.", cli.Counted(n, "change"))
		}, observers.Drop),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
