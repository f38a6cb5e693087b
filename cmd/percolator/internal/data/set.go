package data

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
)

// maxValueFileBytes is a value in hexadecimal, with a line break.
const maxValueFileBytes = 2*percolator.MaxValueBytes + 2

func NewSet() *cobra.Command {
	var f cli.QueryFlags
	var file string
	var form cli.ValueFlags
	var insert bool
	cmd := &cobra.Command{
		Use:  "set TABLE ROW COLUMN [VALUE]",
		Args: cobra.ArbitraryArgs, // RunE counts them, as a flag may take the place of one
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed("file")
			if len(args) != 4 && !(len(args) == 3 && given) || len(args) == 4 && given {
				return cli.Usagef("%s takes a table, a row, a column, and a value or --file", cmd.CommandPath())
			}
			var value cli.GivenValue
			take := func(text []byte) (err error) {
				value, err = form.Take(text)
				return err
			}
			var err error
			if given {
				err = cli.ReadInput(cmd.Context(), file, cmd.InOrStdin(), maxValueFileBytes, take)
			} else {
				err = take([]byte(args[3]))
			}
			if err != nil {
				return err
			}
			return commitOne(cmd, f, args[:3], func(tx *percolator.Txn, types cli.Types, cell percolator.Cell) error {
				encoded, err := value.Encode(types, cell)
				switch {
				case err != nil:
					return err
				case insert:
					return tx.Insert(cell, encoded)
				}
				return tx.Set(cell, encoded)
			})
		},
	}
	f.Add(cmd, cli.CellTimeout)
	cmd.Flags().StringVar(&file, "file", "", `take the value from this file, "-" for the standard input`)
	form.Define(cmd.Flags())
	cmd.Flags().BoolVar(&insert, "insert", false, "only if the cell has no value")
	return cmd
}

// commitOne writes to a cell in a transaction that reads nothing itself, and prints its commit
// timestamp.
func commitOne(cmd *cobra.Command, f cli.QueryFlags, cell []string, write func(*percolator.Txn, cli.Types, percolator.Cell) error) error {
	return f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
		ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return write(tx, cli.TypesOf(c), percolator.Cell{Table: args[0], Row: args[1], Column: args[2]})
		})
		if err != nil {
			return err
		}
		return f.Output.EmitText(cmd.OutOrStdout(), cli.NewCommitJSON(ts), "committed at "+text.At(ts))
	})(cmd, cell)
}

func NewDel() *cobra.Command {
	var f cli.QueryFlags
	cmd := &cobra.Command{
		Use: "del TABLE ROW COLUMN",
		RunE: func(cmd *cobra.Command, args []string) error {
			return commitOne(cmd, f, args, func(tx *percolator.Txn, _ cli.Types, cell percolator.Cell) error { return tx.Delete(cell) })
		},
	}
	f.Add(cmd, cli.CellTimeout)
	return cmd
}
