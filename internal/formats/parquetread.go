package formats

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/internal/formats/columns"
	"github.com/gopercolator/percolator/percolator/model"
)

const (
	// maxParquetRow bounds a row that is read, as MaxLineBytes does. A few bytes of a file can claim
	// the same long value again and again.
	maxParquetRow = 384 << 20
	cellBytes     = 64 // that a cell takes beside what it holds
)

// ReadParquet reads a file that has a column of row keys; declared columns that it has not are
// empty. key names that column: "" for row. ErrInvalidArgument: it is no such file, its columns do
// not fit, or the table does not declare one of them. Errors between rows: ErrInvalidArgument for
// one that cannot be read, with its key or number, without anything else that was stored; those of
// r and of a damaged file, after which nothing follows.
//
// Memory: the metadata, a page and a dictionary of each column, and a row. See columns for the
// limits.
func (t *Table) ReadParquet(r io.ReaderAt, size int64, key string) (rows iter.Seq2[Row, error], err error) {
	f, err := columns.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: not a Parquet file that can be read: %w", model.ErrInvalidArgument, err)
	}
	at, err := t.find(f.Schema(), key)
	if err != nil {
		return nil, fmt.Errorf("%w: a Parquet file whose columns do not fit: %w", model.ErrInvalidArgument, err)
	}
	return func(yield func(Row, error) bool) {
		number := int64(0)
		for i := range f.RowGroups() {
			group := parquetGroup{source: at, columns: f.Group(i)}
			for range f.Rows(i) {
				number++
				row, err := group.read()
				if err == nil && group.unfit != nil {
					if !yield(Row{}, fmt.Errorf("row %s: %w", group.name(row, number), group.unfit)) {
						return
					}
					continue
				}
				if err != nil {
					err = fmt.Errorf("reading row %d of a Parquet file: %w", number, err)
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
			if err := group.end(); err != nil {
				yield(Row{}, fmt.Errorf("reading a Parquet file behind row %d: %w", number, err))
				return
			}
		}
	}, nil
}

// parquetGroup reads the rows of a row group.
type parquetGroup struct {
	source
	columns []*columns.Column
	bytes   int   // of the row
	unfit   error // why the row cannot be read: the first reason
}

// read reads a row. Whatever is wrong with its values, it reads all of them: the next one stands
// behind them. An error is of the file.
func (g *parquetGroup) read() (row Row, err error) {
	g.bytes, g.unfit = 0, nil
	key, err := g.first(g.row.leaf)
	if err != nil {
		return row, err
	}
	if key.IsNull() {
		g.refuse("it has no key")
	} else if stored, ok := g.valueOf(g.row, key); ok {
		row.Key = string(stored)
	}
	for _, c := range g.own {
		v := key // which may be a column of the table as well
		if c.leaf != g.row.leaf {
			if v, err = g.first(c.leaf); err != nil {
				return row, err
			}
		}
		if v.IsNull() {
			continue
		}
		if stored, ok := g.valueOf(c, v); ok {
			row.Cells = append(row.Cells, Cell{c.name, stored})
		}
	}
	if g.key < 0 {
		return row, nil
	}
	return row, g.entries(&row)
}

// first reads the first value of a row.
func (g *parquetGroup) first(leaf int) (parquet.Value, error) {
	v, err := g.columns[leaf].Next()
	switch {
	case err == io.EOF: //nolint:errorlint // returned as it is
		return v, fmt.Errorf("%w: it ends before its last row", columns.ErrDamaged)
	case err == nil && v.RepetitionLevel() != 0:
		return v, fmt.Errorf("%w: a row has no beginning", columns.ErrDamaged)
	}
	return v, err
}

// valueOf is a value as it is stored.
func (g *parquetGroup) valueOf(c ownLeaf, v parquet.Value) (stored []byte, ok bool) {
	size := 0
	if v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray {
		size = len(v.ByteArray())
	}
	if !g.room(size) {
		return nil, false
	}
	of, err := c.as(v)
	if err == nil {
		stored, err = c.of.Encode(of)
	}
	if err != nil {
		g.refuse("column %q: a value is %w", c.name, err)
		return nil, false
	}
	return stored, true
}

// entries reads the row's part of the map.
func (g *parquetGroup) entries(row *Row) error {
	keys, values := g.columns[g.key], g.columns[g.value]
	names := map[string]bool{}
	for i := 0; ; i++ {
		k, err := g.part(g.key, i)
		if err != nil {
			return err
		}
		v, err := g.part(g.value, i)
		if err != nil {
			return err
		}
		there := k.DefinitionLevel() >= g.entry
		switch {
		case there != (v.DefinitionLevel() >= g.entry), i > 0 && !there:
			return fmt.Errorf("%w: the map has not as many keys as values", columns.ErrDamaged)
		case there && k.IsNull():
			g.refuse("a column in the map has no name")
		case there && v.IsNull():
			g.refuse("a column in the map has no value")
		case there:
			g.entryOf(row, names, k.ByteArray(), v.ByteArray())
		}
		more, err := keys.More()
		if err != nil {
			return err
		}
		moreValues, err := values.More()
		if err != nil {
			return err
		}
		if more != moreValues {
			return fmt.Errorf("%w: the map has not as many keys as values", columns.ErrDamaged)
		}
		if !more {
			return nil
		}
	}
}

// part reads a value of the map: the first of the row, or a further one.
func (g *parquetGroup) part(leaf, i int) (parquet.Value, error) {
	if i == 0 {
		return g.first(leaf)
	}
	return g.columns[leaf].Next()
}

func (g *parquetGroup) entryOf(row *Row, names map[string]bool, key, value []byte) {
	if !g.room(len(key) + len(value)) {
		return
	}
	name, err := ParseName(string(key))
	switch {
	case err != nil:
		g.refuse("%w", err)
	case names[name] || slices.ContainsFunc(row.Cells[:len(row.Cells)-len(names)], func(c Cell) bool { return c.Column == name }):
		g.refuse("column %q is there twice", printableName(name))
	default:
		names[name] = true
		row.Cells = append(row.Cells, Cell{name, slices.Clone(value)})
	}
}

// room counts what a row takes, before it is taken.
func (g *parquetGroup) room(n int) bool {
	if g.bytes += n + cellBytes; g.bytes > maxParquetRow {
		g.refuse("it has more than %d bytes", maxParquetRow)
		return false
	}
	return g.unfit == nil
}

func (g *parquetGroup) refuse(format string, args ...any) {
	if g.unfit == nil {
		g.unfit = fmt.Errorf("%w: %w", model.ErrInvalidArgument, fmt.Errorf(format, args...))
	}
}

// name is how errors call a row.
func (g *parquetGroup) name(row Row, number int64) string {
	if row.Key == "" {
		return fmt.Sprint(number)
	}
	return shownKey(row.Key)
}

// end tells whether all columns end with the rows.
func (g *parquetGroup) end() error {
	for _, c := range g.columns {
		if err := c.End(); err != nil {
			return err
		}
	}
	return nil
}
