package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
)

// rangeFlags choose a range of rows.
type rangeFlags struct{ prefix, from, to string }

func (f *rangeFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.prefix, "prefix", "", "rows that begin with this")
	flags.StringVar(&f.from, "from", "", "rows from this one on")
	flags.StringVar(&f.to, "to", "", "rows before this one")
}

func (f *rangeFlags) rows() (percolator.Range, error) {
	bounds, err := cli.Names([]string{f.prefix, f.from, f.to})
	switch {
	case err != nil:
		return percolator.Range{}, err
	case f.prefix != "" && (f.from != "" || f.to != ""):
		return percolator.Range{}, cli.Usagef("--prefix and --from, --to exclude each other")
	case f.prefix != "":
		return percolator.Prefix(bounds[0]), nil
	}
	return percolator.Between(bounds[1], bounds[2]), nil
}

// scanFlags choose a range of rows, or of values of an index.
type scanFlags struct {
	rangeFlags
	index   string
	limit   int
	reverse bool
}

func (f *scanFlags) define(flags *pflag.FlagSet) {
	f.rangeFlags.define(flags)
	flags.StringVar(&f.index, "index", "", "read this index; --prefix, --from and --to are then values of it")
	flags.IntVar(&f.limit, "limit", 100, "how many rows at most, or entries of an index; 0: all")
	flags.BoolVar(&f.reverse, "reverse", false, "from the last row to the first, each with its columns in order; of an index, from the last value")
}

func (f *scanFlags) rows() (percolator.Range, error) {
	if err := cli.NotNegative("limit", f.limit); err != nil {
		return percolator.Range{}, err
	}
	return f.rangeFlags.rows()
}

// values are the bounds of an index, by the type of its column.
func (f *scanFlags) values(schema *percolator.Schema, types cli.Types, table string) (percolator.Range, error) {
	for _, t := range schema.Tables {
		for _, ix := range t.Indexes {
			if t.Name != table || ix.Name != f.index {
				continue
			}
			cell := percolator.Cell{Table: table, Column: ix.Column}
			if typ := types(table, ix.Column); typ.IsText() {
				return f.rows()
			} else if f.prefix != "" {
				return percolator.Range{}, cli.Usagef("the values of index %s are %s, which have no --prefix; there are --from and --to", f.index, typ)
			}
			bound := func(text string) (string, error) {
				if text == "" {
					return "", nil
				}
				value, err := cli.AsText(text).Encode(types, cell)
				return string(value), err
			}
			from, ferr := bound(f.from)
			to, terr := bound(f.to)
			return percolator.Between(from, to), cmp.Or(ferr, terr)
		}
	}
	return f.rows() // ScanIndex says that there is none
}

// entries opens the stream. One row more than the limit tells whether there are more.
func (f *scanFlags) entries(ctx context.Context, r percolator.Scanner, schema *percolator.Schema, types cli.Types, table string, columns []string) (iter.Seq2[percolator.Entry, error], error) {
	limit := 0
	if f.limit > 0 {
		limit = f.limit + 1
	}
	if f.index == "" {
		rows, err := f.rows()
		return r.ScanWith(ctx, table, percolator.ScanOptions{Rows: []percolator.Range{rows}, Columns: columns, Reverse: f.reverse, Limit: limit}), err
	}
	if len(columns) > 0 {
		return nil, cli.Usagef("--index shows the indexed column and no others")
	}
	values, err := f.values(schema, types, table)
	return r.ScanWith(ctx, table, percolator.ScanOptions{Index: f.index, Rows: []percolator.Range{values}, Reverse: f.reverse, Limit: limit}), err
}

func NewScan() *cobra.Command {
	var f cli.QueryFlags
	var at cli.AsOf
	var what scanFlags
	cmd := &cobra.Command{
		Use: "scan TABLE [COLUMN…]",
		PreRunE: func(*cobra.Command, []string) error {
			_, err := what.rows()
			return err
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			return at.View(ctx, c, func(ctx context.Context, s *percolator.Snapshot) error {
				entries, err := what.entries(ctx, s, c.Schema(), cli.TypesOf(c), args[0], args[1:])
				if err != nil {
					return err
				}
				return what.show(cmd.OutOrStdout(), s, cli.TypesOf(c), entries, f.Output)
			})
		}, cli.Reading),
	}
	f.Add(cmd, cli.DataTimeout)
	at.Add(cmd)
	what.define(cmd.Flags())
	return cmd
}

func (f *scanFlags) show(w io.Writer, r percolator.Reader, types cli.Types, entries iter.Seq2[percolator.Entry, error], output cli.Output) error {
	var to entryWriter = &entryTable{w: w, types: types}
	if output.IsJSON() {
		to = &entryJSON{w: w, types: types, snapshot: int64(r.StartTimestamp())}
	}
	rows, last := 0, ""
	for e, err := range entries {
		if err == nil && (rows == 0 || f.index != "" || e.Cell.Row != last) {
			if rows++; f.limit > 0 && rows > f.limit {
				return to.end(true)
			}
			last = e.Cell.Row
		}
		if err == nil {
			err = to.add(e)
		}
		if err != nil {
			return errors.Join(err, to.cut())
		}
	}
	return to.end(false)
}

// entryWriter writes a stream of entries, in bounded memory.
type entryWriter interface {
	add(e percolator.Entry) error
	end(more bool) error
	cut() error // writes what has come before an error
}

// entryTable lines up the columns of so many lines at a time.
type entryTable struct {
	w     io.Writer
	types cli.Types
	table cli.Table
	lines int
}

const alignedLines = 1000

func (t *entryTable) add(e percolator.Entry) error {
	switch {
	case t.lines == 0:
		t.table = cli.NewTable(t.w, "ROW", "COLUMN", "COMMITTED", "VALUE")
	case t.lines%alignedLines == 0:
		if err := t.table.Flush(); err != nil {
			return err
		}
	}
	t.lines++
	t.table.Row(cli.Shown(e.Cell.Row), cli.Shown(e.Cell.Column), int64(e.CommitTS), beginning(t.types(e.Cell.Table, e.Cell.Column), e.Value))
	return nil
}

func (t *entryTable) end(more bool) error {
	if t.lines == 0 {
		return nil
	}
	if more {
		t.table.Row("…", "", "", "more with --limit")
	}
	return t.table.Flush()
}

func (t *entryTable) cut() error { return t.end(false) }

// cut leaves the document open, so that it cannot pass for a whole one.
func (j *entryJSON) cut() error { return nil }

// shownBytes is where the table of a scan cuts values.
const shownBytes = 64

func beginning(t percolator.Type, value []byte) string {
	if len(value) <= shownBytes {
		return cli.TypedText(t, value)
	}
	cut := shownBytes
	for cut > shownBytes-utf8.UTFMax && !utf8.RuneStart(value[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", cli.PartText(t, value[:cut], int64(len(value))), len(value))
}

// entryJSON writes {"snapshot":…,"cells":[…],"more":…} as it comes.
type entryJSON struct {
	w        io.Writer
	types    cli.Types
	snapshot int64
	started  bool
}

func (j *entryJSON) begin(more string) error {
	if j.started {
		_, err := io.WriteString(j.w, ","+more)
		return err
	}
	j.started = true
	_, err := fmt.Fprintf(j.w, "{\n  \"snapshot\": %d,\n  \"cells\": [%s", j.snapshot, more)
	return err
}

func (j *entryJSON) add(e percolator.Entry) error {
	if err := j.begin("\n    "); err != nil {
		return err
	}
	text, err := cli.EncodeJSON("    ", j.types.Cell(e))
	if err == nil {
		_, err = j.w.Write(bytes.TrimRight(text, "\n"))
	}
	return err
}

func (j *entryJSON) end(more bool) error {
	closing := "\n  ]"
	if !j.started {
		if err := j.begin(""); err != nil {
			return err
		}
		closing = "]"
	}
	_, err := fmt.Fprintf(j.w, "%s,\n  \"more\": %t\n}\n", closing, more)
	return err
}
