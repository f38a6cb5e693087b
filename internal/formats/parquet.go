package formats

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/internal/model"
)

// A Parquet file has these columns, in the order of their names:
//
//	row       BYTE_ARRAY, required
//	NAME      of each declared column, optional: BYTE_ARRAY (bytes), STRING, INT64, DOUBLE, BOOLEAN,
//	          TIMESTAMP (microseconds, UTC) or JSON
//	columns   MAP from STRING to BYTE_ARRAY: undeclared columns, and values that are not of their
//	          column's kind, which for a timestamp includes those between two microseconds
//
// A declared column that is called row or columns, or whose name is not UTF-8, is in the map.

// hasOwn reports whether a declared column is one of the file.
func (c Column) hasOwn() bool {
	return c.Name != rowName && c.Name != cellsName && utf8.ValidString(c.Name)
}

func (t *Table) parquetSchema() *parquet.Schema {
	group := parquet.Group{
		rowName:   parquet.Required(parquet.Leaf(parquet.ByteArrayType)),
		cellsName: parquet.Optional(parquet.Map(parquet.String(), parquet.Leaf(parquet.ByteArrayType))),
	}
	for _, c := range t.columns {
		if c.hasOwn() {
			group[c.Name] = parquet.Optional(c.Kind.node())
		}
	}
	return parquet.NewSchema(rowName, group)
}

func (k Kind) node() parquet.Node {
	switch k {
	case String:
		return parquet.String()
	case Int64:
		return parquet.Leaf(parquet.Int64Type)
	case Float64:
		return parquet.Leaf(parquet.DoubleType)
	case Bool:
		return parquet.Leaf(parquet.BooleanType)
	case Timestamp:
		return parquet.Timestamp(parquet.Microsecond)
	case JSON:
		return parquet.JSON()
	}
	return parquet.Leaf(parquet.ByteArrayType)
}

// parquetValue is the inverse of goParquet; ok is false where the file's column cannot hold v.
func parquetValue(v any) (_ parquet.Value, ok bool) {
	switch of := v.(type) {
	case []byte:
		return parquet.ByteArrayValue(of), true
	case string:
		return parquet.ByteArrayValue([]byte(of)), true
	case int64:
		return parquet.Int64Value(of), true
	case float64:
		return parquet.DoubleValue(of), true
	case bool:
		return parquet.BooleanValue(of), true
	case time.Time:
		return parquet.Int64Value(of.UnixMicro()), of.Nanosecond()%1000 == 0
	}
	panic(fmt.Sprintf("a value of type %T", v)) // Decode does not do what Column says
}

func (k Kind) goValue(v parquet.Value) any {
	switch k {
	case Int64:
		return v.Int64()
	case Float64:
		return v.Double()
	case Bool:
		return v.Boolean()
	case Timestamp:
		return time.UnixMicro(v.Int64()).UTC()
	}
	return slices.Clone(v.ByteArray())
}

// leaves is where the values of a row stand in a file.
type leaves struct {
	row, key, value int
	mapLevel        int // definition level of an entry of the map
	own             map[string]int
}

func (t *Table) leaves(s *parquet.Schema) (l leaves, err error) {
	at := func(path ...string) int {
		leaf, ok := s.Lookup(path...)
		if !ok {
			err = errors.Join(err, fmt.Errorf("%w: the file has no column %v", model.ErrInvalidArgument, path))
		}
		l.mapLevel = leaf.MaxDefinitionLevel
		return leaf.ColumnIndex
	}
	l.row, l.own = at(rowName), map[string]int{}
	for _, c := range t.columns {
		if leaf, ok := s.Lookup(c.Name); ok && c.hasOwn() {
			l.own[c.Name] = leaf.ColumnIndex
		}
	}
	l.key, l.value = at(cellsName, "key_value", "key"), at(cellsName, "key_value", "value")
	return l, err
}

// ParquetWriter writes a Parquet file. It holds a row group in memory, as it is encoded. It is not
// safe for concurrent use.
type ParquetWriter struct {
	table  *Table
	leaves leaves
	w      *parquet.Writer
	width  int
	values [][]parquet.Value // of the row, by leaf
}

// NewParquetWriter begins a file. The caller closes it, whatever it has written.
func (t *Table) NewParquetWriter(w io.Writer) *ParquetWriter {
	schema := t.parquetSchema()
	at, err := t.leaves(schema)
	if err != nil {
		panic(err) // it is the schema above
	}
	p := &ParquetWriter{table: t, leaves: at, width: len(schema.Columns())}
	p.values = make([][]parquet.Value, p.width)
	p.w = parquet.NewWriter(w, schema, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("percolator", "", ""),
		parquet.SkipPageBounds(rowName))
	return p
}

// Write writes a row, and returns how many values are not of the kinds of their columns. Cells of
// one row have different names.
func (p *ParquetWriter) Write(r Row) (mistyped int, err error) {
	for i := range p.values {
		p.values[i] = p.values[i][:0]
	}
	p.values[p.leaves.row] = append(p.values[p.leaves.row], parquet.ByteArrayValue([]byte(r.Key)))
	for _, cell := range r.Cells {
		c := p.table.column(cell.Column)
		v, ok := c.value(cell.Value)
		at, own := p.leaves.own[cell.Column]
		if own && ok {
			if pv, fits := parquetValue(v); fits {
				p.values[at] = append(p.values[at], pv.Level(0, 1, at))
				continue
			}
		}
		if !ok || own {
			mistyped++
		}
		p.mapped(cell)
	}
	row := make(parquet.Row, 0, p.width+2*len(r.Cells))
	for i, of := range p.values {
		if len(of) == 0 {
			of = append(of, parquet.NullValue().Level(0, 0, i))
		}
		row = append(row, of...)
	}
	_, err = p.w.WriteRows([]parquet.Row{row})
	return mistyped, err
}

// mapped puts a cell into the map.
func (p *ParquetWriter) mapped(cell Cell) {
	repetition := 1
	if len(p.values[p.leaves.key]) == 0 {
		repetition = 0
	}
	entry := func(leaf int, value []byte) {
		p.values[leaf] = append(p.values[leaf], parquet.ByteArrayValue(value).Level(repetition, p.leaves.mapLevel, leaf))
	}
	entry(p.leaves.key, []byte(NameText(cell.Column)))
	entry(p.leaves.value, cell.Value)
}

// Close ends the file.
func (p *ParquetWriter) Close() error { return p.w.Close() }

// parquetRows is how many rows a reader decodes at once.
const parquetRows = 64

// ReadParquet reads a file that has the columns row and columns; declared columns that it has not
// are empty, others that it has are passed over. Errors: ErrInvalidArgument for what is no such
// file, without anything that was stored; those of r.
func (t *Table) ReadParquet(r io.ReaderAt, size int64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		f, err := parquet.OpenFile(r, size)
		if err != nil {
			yield(Row{}, fmt.Errorf("%w: not a Parquet file", model.ErrInvalidArgument))
			return
		}
		at, err := t.leaves(f.Schema())
		if err == nil {
			err = t.checkKinds(f.Schema())
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		for _, group := range f.RowGroups() {
			if !t.readGroup(group, at, yield) {
				return
			}
		}
	}
}

func (t *Table) readGroup(group parquet.RowGroup, at leaves, yield func(Row, error) bool) (more bool) {
	rows := group.Rows()
	defer func() { _ = rows.Close() }() // only read from
	buf := make([]parquet.Row, parquetRows)
	for {
		n, err := rows.ReadRows(buf)
		for _, values := range buf[:n] {
			row, err := t.parseParquet(values, at)
			if !yield(row, err) || err != nil {
				return false
			}
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			yield(Row{}, fmt.Errorf("reading a Parquet file: %w", err))
			return false
		}
	}
}

// checkKinds refuses a file whose columns are not those of the table.
func (t *Table) checkKinds(s *parquet.Schema) error {
	for _, c := range t.columns {
		leaf, ok := s.Lookup(c.Name)
		if !ok || !c.hasOwn() {
			continue
		}
		if have, want := leaf.Node.Type().Kind(), c.Kind.node().Type().Kind(); have != want {
			return fmt.Errorf("column %q: %w: the file has it as %v, the table as %v", c.Name, model.ErrInvalidArgument, have, want)
		}
	}
	return nil
}

func (t *Table) parseParquet(values parquet.Row, at leaves) (row Row, err error) {
	var names, mapped []parquet.Value
	own := make([]parquet.Value, len(t.columns))
	leaf := map[int]int{}
	for i, c := range t.columns {
		if l, ok := at.own[c.Name]; ok {
			leaf[l] = i
		}
	}
	for _, v := range values {
		switch i := v.Column(); {
		case i == at.row:
			row.Key = string(v.ByteArray())
		case i == at.key && v.DefinitionLevel() == at.mapLevel:
			names = append(names, v)
		case i == at.value && v.DefinitionLevel() == at.mapLevel:
			mapped = append(mapped, v)
		default:
			if c, ok := leaf[i]; ok {
				own[c] = v
			}
		}
	}
	for i, v := range own {
		if v.IsNull() {
			continue
		}
		c := t.columns[i]
		stored, err := c.stored(c.Kind.goValue(v))
		if err != nil {
			return Row{}, err
		}
		row.Cells = append(row.Cells, Cell{c.Name, stored})
	}
	if len(names) != len(mapped) {
		return Row{}, fmt.Errorf("%w: a column without a value", model.ErrInvalidArgument)
	}
	for i := range names {
		name, err := ParseName(string(names[i].ByteArray()))
		if err != nil {
			return Row{}, err
		}
		row.Cells = append(row.Cells, Cell{name, slices.Clone(mapped[i].ByteArray())})
	}
	return row, nil
}
