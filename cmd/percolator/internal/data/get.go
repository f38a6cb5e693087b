// Package data has the commands that read and write cells, and those that move tables.
package data

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
)

// rowJSON is what "get" found. Missing are those of the named columns that have no value.
type rowJSON struct {
	Snapshot int64          `json:"snapshot"`
	Cells    []cli.CellJSON `json:"cells"`
	Missing  []string       `json:"missing"`
}

func NewGet() *cobra.Command {
	var f cli.QueryFlags
	var at cli.AsOf
	var raw bool
	cmd := &cobra.Command{
		Use: "get TABLE ROW [COLUMN…]",
		PreRunE: func(_ *cobra.Command, args []string) error {
			if raw && len(args) != 3 {
				return cli.Usagef("--raw needs exactly one column")
			}
			return nil
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			return at.View(ctx, c, func(ctx context.Context, s *percolator.Snapshot) error {
				return showRow(ctx, cmd.OutOrStdout(), c, s, args[0], args[1], args[2:], raw, f.Output)
			})
		}, cli.Reading),
	}
	f.Add(cmd, cli.CellTimeout)
	at.Add(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "write the bytes of the value and nothing else")
	return cmd
}

func showRow(ctx context.Context, w io.Writer, c *percolator.Client, r percolator.Reader, table, row string, columns []string, raw bool, output cli.Output) error {
	entries, missing, err := readRow(ctx, r, table, row, columns)
	if err != nil {
		return err
	}
	types := cli.TypesOf(c)
	found := rowJSON{Snapshot: int64(r.StartTimestamp()), Cells: ordered.Map(entries, types.Cell), Missing: ordered.Map(missing, cli.Shown)}
	if raw && len(entries) == 1 {
		_, err := w.Write(entries[0].Value)
		return err
	}
	if !raw {
		if err := output.Emit(w, found, func(w io.Writer) { printEntries(w, types, entries) }); err != nil {
			return err
		}
	}
	switch {
	case len(missing) > 0:
		cells := ordered.Map(missing, func(column string) string {
			return cli.CellText(percolator.Cell{Table: table, Row: row, Column: column})
		})
		return fmt.Errorf("%s: %w%s", strings.Join(cells, ", "), percolator.ErrNotFound, cli.ColumnHint(c, table, missing[0]))
	case len(entries) == 0:
		return fmt.Errorf("%s: %w", cli.RowName(table, row), percolator.ErrNotFound)
	}
	return nil
}

// readRow reads columns of a row with their commit timestamps, all if none are named, and tells
// which of the named ones have no value.
func readRow(ctx context.Context, r percolator.Reader, table, row string, columns []string) (entries []percolator.Entry, missing []string, err error) {
	if row == "" {
		return nil, nil, cli.Usagef("the row key is empty")
	}
	missing = slices.Compact(slices.Sorted(slices.Values(columns)))
	for e, err := range r.Scan(ctx, table, percolator.Row(row), columns...) {
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, e)
		missing = slices.DeleteFunc(missing, func(c string) bool { return c == e.Cell.Column })
	}
	return entries, missing, nil
}

// printEntries shows cells of one row.
func printEntries(w io.Writer, types cli.Types, entries []percolator.Entry) {
	if len(entries) == 0 {
		return
	}
	t := cli.NewTable(w, "COLUMN", "COMMITTED", "VALUE")
	for _, e := range entries {
		t.Row(cli.Shown(e.Cell.Column), int64(e.CommitTS), cli.TypedText(types(e.Cell.Table, e.Cell.Column), e.Value))
	}
	t.Flush()
}
