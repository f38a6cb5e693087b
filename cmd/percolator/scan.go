package main

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
	bounds, err := names([]string{f.prefix, f.from, f.to})
	switch {
	case err != nil:
		return percolator.Range{}, err
	case f.prefix != "" && (f.from != "" || f.to != ""):
		return percolator.Range{}, usagef("--prefix and --from, --to exclude each other")
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
	flags.StringVar(&f.index, "index", "", "read this index, by its values, which --prefix, --from and --to then mean")
	flags.IntVar(&f.limit, "limit", 100, "how many cells at most; 0: all")
	flags.BoolVar(&f.reverse, "reverse", false, "from the last row to the first, each with its columns in order; of an index, from the last value")
}

func (f *scanFlags) rows() (percolator.Range, error) {
	if err := notNegative("limit", f.limit); err != nil {
		return percolator.Range{}, err
	}
	return f.rangeFlags.rows()
}

// values are the bounds of an index, by the type of its column.
func (f *scanFlags) values(schema *percolator.Schema, types columnTypes, table string) (percolator.Range, error) {
	for _, t := range schema.Tables {
		for _, ix := range t.Indexes {
			if t.Name != table || ix.Name != f.index {
				continue
			}
			cell := percolator.Cell{Table: table, Column: ix.Column}
			if typ := types(table, ix.Column); typ == percolator.TypeBytes || typ == percolator.TypeString || typ == percolator.TypeJSON {
				return f.rows()
			} else if f.prefix != "" {
				return percolator.Range{}, usagef("the values of index %s are %s, which have no --prefix; there are --from and --to", f.index, typ)
			}
			bound := func(text string) (string, error) {
				if text == "" {
					return "", nil
				}
				value, err := givenValue{[]byte(text), true}.of(types, cell)
				return string(value), err
			}
			from, ferr := bound(f.from)
			to, terr := bound(f.to)
			return percolator.Between(from, to), cmp.Or(ferr, terr)
		}
	}
	return f.rows() // ScanIndex says that there is none
}

// entries opens the stream. One entry more than the limit tells whether there are more; of rows
// that have an entry there are no more than of entries.
func (f *scanFlags) entries(ctx context.Context, r percolator.Scanner, schema *percolator.Schema, types columnTypes, table string, columns []string) (iter.Seq2[percolator.Entry, error], error) {
	limit := 0
	if f.limit > 0 {
		limit = f.limit + 1
	}
	if f.index == "" {
		rows, err := f.rows()
		return r.ScanWith(ctx, table, percolator.ScanOptions{Rows: []percolator.Range{rows}, Columns: columns, Reverse: f.reverse, Limit: limit}), err
	}
	if len(columns) > 0 {
		return nil, usagef("--index shows the indexed column and no others")
	}
	values, err := f.values(schema, types, table)
	return r.ScanIndexWith(ctx, table, f.index, percolator.ScanIndexOptions{Values: values, Reverse: f.reverse, Limit: limit}), err
}

func newScan() *cobra.Command {
	var f queryFlags
	var at asOfFlag
	var what scanFlags
	cmd := &cobra.Command{
		Use:  "scan TABLE [COLUMN…]",
		Args: takes(1, anyNumber),
		PreRunE: func(*cobra.Command, []string) error {
			_, err := what.rows()
			return err
		},
		RunE: f.run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
			return at.view(ctx, c, func(ctx context.Context, s *percolator.Snapshot) error {
				entries, err := what.entries(ctx, s, c.Schema(), typesOf(c), args[0], args[1:])
				if err != nil {
					return err
				}
				return showScan(cmd.OutOrStdout(), s, typesOf(c), entries, what.limit, f.output)
			})
		}, reading),
	}
	f.add(cmd, defaultDataTimeout)
	at.add(cmd)
	what.define(cmd.Flags())
	return cmd
}

func showScan(w io.Writer, r percolator.Reader, types columnTypes, entries iter.Seq2[percolator.Entry, error], limit int, output outputFlag) error {
	var to entryWriter = &entryTable{w: w, types: types}
	if output.format == outputJSON {
		to = &entryJSON{w: w, types: types, snapshot: int64(r.StartTimestamp())}
	}
	n := 0
	for e, err := range entries {
		if err == nil && n == limit && limit > 0 {
			return to.end(true)
		}
		if err == nil {
			err = to.add(e)
		}
		if err != nil {
			return errors.Join(err, to.cut())
		}
		n++
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
	types columnTypes
	table table
	lines int
}

const alignedLines = 1000

func (t *entryTable) add(e percolator.Entry) error {
	switch {
	case t.lines == 0:
		t.table = newTable(t.w, "ROW", "COLUMN", "COMMITTED", "VALUE")
	case t.lines%alignedLines == 0:
		if err := t.table.w.Flush(); err != nil {
			return err
		}
	}
	t.lines++
	t.table.row(shown(e.Cell.Row), shown(e.Cell.Column), int64(e.CommitTS), beginning(t.types(e.Cell.Table, e.Cell.Column), e.Value))
	return nil
}

func (t *entryTable) end(more bool) error {
	if t.lines == 0 {
		return nil
	}
	if more {
		t.table.row("…", "", "", "more with --limit")
	}
	return t.table.w.Flush()
}

func (t *entryTable) cut() error { return t.end(false) }

// cut leaves the document open, so that it cannot pass for a whole one.
func (j *entryJSON) cut() error { return nil }

// shownBytes is where the table of a scan cuts values.
const shownBytes = 64

func beginning(t percolator.Type, value []byte) string {
	if len(value) <= shownBytes {
		return typedText(t, value)
	}
	cut := shownBytes
	for cut > shownBytes-utf8.UTFMax && !utf8.RuneStart(value[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", partText(t, value[:cut], int64(len(value))), len(value))
}

// entryJSON writes {"snapshot":…,"cells":[…],"more":…} as it comes.
type entryJSON struct {
	w        io.Writer
	types    columnTypes
	snapshot int64
	begun    bool
}

func (j *entryJSON) begin(more string) error {
	if j.begun {
		_, err := io.WriteString(j.w, ","+more)
		return err
	}
	j.begun = true
	_, err := fmt.Fprintf(j.w, "{\n  \"snapshot\": %d,\n  \"cells\": [%s", j.snapshot, more)
	return err
}

func (j *entryJSON) add(e percolator.Entry) error {
	if err := j.begin("\n    "); err != nil {
		return err
	}
	text, err := encodeJSON("    ", j.types.cell(e))
	if err == nil {
		_, err = j.w.Write(bytes.TrimRight(text, "\n"))
	}
	return err
}

func (j *entryJSON) end(more bool) error {
	closing := "\n  ]"
	if !j.begun {
		if err := j.begin(""); err != nil {
			return err
		}
		closing = "]"
	}
	_, err := fmt.Fprintf(j.w, "%s,\n  \"more\": %t\n}\n", closing, more)
	return err
}
