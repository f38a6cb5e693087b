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

// parkedFlags choose parked cells.
type parkedFlags struct{ refusedFlags }

// command does something with what was chosen. It asks the question before, unless that is "".
func (f *parkedFlags) command(
	verb, did, question string, do func(ctx context.Context, c *percolator.Client, p observers.Parked) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use:  verb + " [TABLE ROW COLUMN OBSERVER]",
		Args: f.check,
		RunE: f.DataFlags.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			chosen, err := f.choose(ctx, c, args)
			if err != nil {
				return err
			}
			if question != "" && len(chosen) > 0 {
				if err := f.consent.Ask(ctx, cmd, question, cli.Counted(len(chosen), "change")); err != nil {
					return err
				}
			}
			return f.each(cmd, chosen, did, func(p observers.Parked) error { return do(ctx, c, p) })
		}),
	}
	f.add(cmd, "every parked cell", "observer", "every parked cell of this observer")
	if question != "" {
		f.consent.AddYes(cmd)
	}
	return cmd
}

func (f *parkedFlags) check(cmd *cobra.Command, args []string) error {
	if !f.oneWay(len(args) > 0) || len(args) != 0 && len(args) != 4 {
		return cli.Usagef("%s takes a table, a row, a column and an observer, or --observer, or --all", cmd.CommandPath())
	}
	return nil
}

// choose lists what is parked and was asked for.
func (f *parkedFlags) choose(ctx context.Context, c *percolator.Client, args []string) ([]observers.Parked, error) {
	observer, err := cli.FromShown(f.of)
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
			f.of != "" && p.Observer != observer {
			continue
		}
		chosen = append(chosen, p)
	}
	if len(args) > 0 && len(chosen) == 0 {
		cell := percolator.Cell{Table: args[0], Row: args[1], Column: args[2]}
		hint := cmp.Or(cli.ColumnHint(c, cell.Table, cell.Column), text.DidYouMean(args[3], parkedHere...), "; percolator notify ls shows parked cells")
		return nil, fmt.Errorf("%w: observer %s is not parked on %s%s", percolator.ErrNotFound, cli.Shown(args[3]), cli.CellText(cell), hint)
	}
	return chosen, nil
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
	out := handledJSON{Done: did, DryRun: f.consent.DryRun, Cells: []parkedCell{}}
	did = f.happened(did)
	for _, p := range chosen {
		if !f.consent.DryRun {
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

// NewNotifyRetry is "notify retry".
func NewNotifyRetry() *cobra.Command {
	return new(parkedFlags).command("retry", "retried", "", observers.Retry)
}

// NewNotifyDrop is "notify drop".
func NewNotifyDrop() *cobra.Command {
	return new(parkedFlags).command("drop", "dropped", "Drop %s? This cannot be undone.", observers.Drop)
}
