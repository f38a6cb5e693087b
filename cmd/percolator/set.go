package main

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

func newSet() *cobra.Command {
	var f queryFlags
	var file string
	var form valueFlags
	var insert bool
	cmd := &cobra.Command{
		Use: "set TABLE ROW COLUMN [VALUE]",
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed("file")
			if len(args) != 4 && !(len(args) == 3 && given) || len(args) == 4 && given {
				return usagef("%s takes a table, a row, a column, and a value or --file", cmd.CommandPath())
			}
			var value givenValue
			take := func(text []byte) (err error) {
				value, err = form.take(text)
				return err
			}
			var err error
			if given {
				err = readInput(cmd.Context(), file, cmd.InOrStdin(), maxValueFileBytes, take)
			} else {
				err = take([]byte(args[3]))
			}
			if err != nil {
				return err
			}
			return commitOne(cmd, f, args[:3], func(tx *percolator.Txn, types columnTypes, cell percolator.Cell) error {
				encoded, err := value.of(types, cell)
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
	f.add(cmd, defaultCellTimeout)
	cmd.Flags().StringVar(&file, "file", "", `take the value from this file, "-" for the standard input`)
	form.define(cmd.Flags())
	cmd.Flags().BoolVar(&insert, "insert", false, "only if the cell has no value")
	return cmd
}

// commitOne writes to a cell in a transaction that reads nothing itself, and prints its commit
// timestamp.
func commitOne(cmd *cobra.Command, f queryFlags, cell []string, write func(*percolator.Txn, columnTypes, percolator.Cell) error) error {
	return f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
		ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return write(tx, typesOf(c), percolator.Cell{Table: args[0], Row: args[1], Column: args[2]})
		})
		if err != nil {
			return err
		}
		return f.output.emitText(cmd.OutOrStdout(), newCommitJSON(ts), "committed at "+atTime(ts))
	})(cmd, cell)
}

// fromHex allows a line break at the end, which files have. Its errors do not show the value.
func fromHex(text string) ([]byte, error) {
	text = strings.TrimRight(text, "\r\n")
	value, err := hex.DecodeString(text)
	if err != nil {
		return nil, usagef("the value is not an even number of hexadecimal digits")
	}
	return value, nil
}

func newDel() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:  "del TABLE ROW COLUMN",
		Args: oneCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			return commitOne(cmd, f, args, func(tx *percolator.Txn, _ columnTypes, cell percolator.Cell) error { return tx.Delete(cell) })
		},
	}
	f.add(cmd, defaultCellTimeout)
	return cmd
}
