package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/gopercolator/percolator/internal/model"
)

// A Parquet file has these columns, in the order of their names:
//
//	row       BYTE_ARRAY, required
//	NAME      of each declared column, optional: BYTE_ARRAY (bytes), STRING, INT64, DOUBLE, BOOLEAN,
//	          TIMESTAMP (nanoseconds, UTC) or JSON
//	columns   MAP from STRING to BYTE_ARRAY: columns that are not declared, or by a prefix, and values
//	          that are not of their column's type
//
// A declared column that is called row or columns, or whose name is not UTF-8, is in the map.

// own is the declared columns that are columns of the file.
func (t *Table) own() (list []model.ColumnSchema) {
	for _, c := range t.info.Columns {
		if !strings.HasSuffix(c.Name, "*") && c.Name != rowName && c.Name != cellsName && utf8.ValidString(c.Name) {
			list = append(list, c)
		}
	}
	return list
}

func (t *Table) parquetSchema() *parquet.Schema {
	group := parquet.Group{
		rowName:   parquet.Required(parquet.Leaf(parquet.ByteArrayType)),
		cellsName: parquet.Optional(parquet.Map(parquet.String(), parquet.Leaf(parquet.ByteArrayType))),
	}
	for _, c := range t.own() {
		group[c.Name] = parquet.Optional(node(c.Type))
	}
	return parquet.NewSchema(rowName, group)
}

func node(t model.Type) parquet.Node {
	switch t {
	case model.TypeString:
		return parquet.String()
	case model.TypeInt64, model.TypeOrderedInt64:
		return parquet.Leaf(parquet.Int64Type)
	case model.TypeFloat64:
		return parquet.Leaf(parquet.DoubleType)
	case model.TypeBool:
		return parquet.Leaf(parquet.BooleanType)
	case model.TypeTime:
		return parquet.Timestamp(parquet.Nanosecond)
	case model.TypeJSON:
		return parquet.JSON()
	}
	return parquet.Leaf(parquet.ByteArrayType)
}

func parquetValue(v any) parquet.Value {
	switch of := v.(type) {
	case []byte:
		return parquet.ByteArrayValue(of)
	case json.RawMessage:
		return parquet.ByteArrayValue(of)
	case string:
		return parquet.ByteArrayValue([]byte(of))
	case int64:
		return parquet.Int64Value(of)
	case float64:
		return parquet.DoubleValue(of)
	case bool:
		return parquet.BooleanValue(of)
	case time.Time:
		return parquet.Int64Value(of.UnixNano())
	}
	panic(fmt.Sprintf("a value of type %T", v)) // decode returns others
}

// goOf is the inverse of parquetValue.
func goOf(t model.Type, v parquet.Value) any {
	switch t {
	case model.TypeInt64, model.TypeOrderedInt64:
		return v.Int64()
	case model.TypeFloat64:
		return v.Double()
	case model.TypeBool:
		return v.Boolean()
	case model.TypeTime:
		return time.Unix(0, v.Int64()).UTC()
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
	for _, c := range t.own() {
		if leaf, ok := s.Lookup(c.Name); ok {
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
	w      *parquet.GenericWriter[any]
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
	// The library's own codec keeps its encoders for good.
	codec := &zstd.Codec{Level: parquet.Zstd.Level}
	p.w = parquet.NewGenericWriter[any](w, schema, parquet.Compression(codec), parquet.CreatedBy("percolator", "", ""),
		parquet.SkipPageBounds(rowName))
	return p
}

// Write writes a row, and returns how many values are not of the types of their columns. Cells of
// one row have different names.
func (p *ParquetWriter) Write(r Row) (mistyped int, err error) {
	for i := range p.values {
		p.values[i] = p.values[i][:0]
	}
	p.values[p.leaves.row] = append(p.values[p.leaves.row], parquet.ByteArrayValue([]byte(r.Key)).Level(0, 0, p.leaves.row))
	for _, cell := range r.Cells {
		v, ok := decode(p.table.typeOf(cell.Column), cell.Value)
		if !ok {
			mistyped++
		}
		if at, own := p.leaves.own[cell.Column]; own && ok {
			p.values[at] = append(p.values[at], parquetValue(v).Level(0, 1, at))
		} else {
			p.mapped(cell)
		}
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
			err = t.checkTypes(f.Schema())
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

// checkTypes refuses a file whose columns are not those of the table.
func (t *Table) checkTypes(s *parquet.Schema) error {
	for _, c := range t.own() {
		leaf, ok := s.Lookup(c.Name)
		if !ok {
			continue
		}
		if have, want := leaf.Node.Type(), node(c.Type).Type(); have.Kind() != want.Kind() || c.Type == model.TypeTime && have.String() != want.String() {
			return fmt.Errorf("column %q: %w: the file has it as %v, the table as %v", c.Name, model.ErrInvalidArgument, have, want)
		}
	}
	return nil
}

func (t *Table) parseParquet(values parquet.Row, at leaves) (row Row, err error) {
	own := map[int]parquet.Value{}
	var names, mapped []parquet.Value
	for _, v := range values {
		switch i := v.Column(); {
		case i == at.row:
			row.Key = string(v.ByteArray())
		case i == at.key && v.DefinitionLevel() == at.mapLevel:
			names = append(names, v)
		case i == at.value && v.DefinitionLevel() == at.mapLevel:
			mapped = append(mapped, v)
		case !v.IsNull():
			own[i] = v
		}
	}
	for _, c := range t.own() {
		leaf, there := at.own[c.Name]
		v, set := own[leaf]
		if !there || !set {
			continue
		}
		stored, err := encode(t.typeOf(c.Name), goOf(c.Type, v))
		if err != nil {
			return Row{}, fmt.Errorf("column %q: %w: a value is %w", c.Name, model.ErrInvalidArgument, err)
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
