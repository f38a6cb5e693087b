package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

// defaultCellTimeout is how long a command that deals with a few cells may take, unless --timeout
// says otherwise.
const defaultCellTimeout = 30 * time.Second

// rowJSON is what "get" found. Missing are those of the named columns that have no value.
type rowJSON struct {
	Snapshot int64      `json:"snapshot"`
	Cells    []cellJSON `json:"cells"`
	Missing  []string   `json:"missing"`
}

func newGet() *cobra.Command {
	var f queryFlags
	var at asOfFlag
	var raw bool
	cmd := &cobra.Command{
		Use:  "get TABLE ROW [COLUMN…]",
		Args: takes(2, anyNumber),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if raw && len(args) != 3 {
				return usagef("--raw needs exactly one column")
			}
			return nil
		},
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			return at.view(ctx, c, func(ctx context.Context, s *percolator.Snapshot) error {
				return showRow(ctx, cmd.OutOrStdout(), c, s, args[0], args[1], args[2:], raw, f.output)
			})
		}, reading),
	}
	f.add(cmd, defaultCellTimeout)
	at.add(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "write the bytes of the value and nothing else")
	return cmd
}

func showRow(ctx context.Context, w io.Writer, c *percolator.Client, r percolator.Reader, table, row string, columns []string, raw bool, output outputFlag) error {
	entries, missing, err := readRow(ctx, r, table, row, columns)
	if err != nil {
		return err
	}
	types := typesOf(c)
	found := rowJSON{Snapshot: int64(r.StartTimestamp()), Cells: arrayOf(entries, types.cell), Missing: arrayOf(missing, shown)}
	if raw && len(entries) == 1 {
		_, err := w.Write(entries[0].Value)
		return err
	}
	if !raw {
		if err := output.emit(w, found, func(w io.Writer) { printEntries(w, types, entries) }); err != nil {
			return err
		}
	}
	switch {
	case len(missing) > 0:
		cells := arrayOf(missing, func(column string) string { return cellText(percolator.Cell{Table: table, Row: row, Column: column}) })
		return fmt.Errorf("%s: %w%s", strings.Join(cells, ", "), percolator.ErrNotFound, columnHint(c, table, missing[0]))
	case len(entries) == 0:
		return fmt.Errorf("%s: %w", rowName(table, row), percolator.ErrNotFound)
	}
	return nil
}

// readRow reads columns of a row with their commit timestamps, all if none are named, and tells
// which of the named ones have no value.
func readRow(ctx context.Context, r percolator.Reader, table, row string, columns []string) (entries []percolator.Entry, missing []string, err error) {
	if row == "" {
		return nil, nil, usagef("the row key is empty")
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
func printEntries(w io.Writer, types columnTypes, entries []percolator.Entry) {
	if len(entries) == 0 {
		return
	}
	t := newTable(w, "COLUMN", "COMMITTED", "VALUE")
	for _, e := range entries {
		t.row(shown(e.Cell.Column), int64(e.CommitTS), typedText(types(e.Cell.Table, e.Cell.Column), e.Value))
	}
	t.flush()
}
