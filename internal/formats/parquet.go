package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/percolator/model"
)

// A Parquet file has these columns, in the order of their names:
//
//	row       BYTE_ARRAY
//	NAME      of each declared column, optional: BYTE_ARRAY (bytes), STRING, INT64, DOUBLE, BOOLEAN,
//	          TIMESTAMP (nanoseconds, UTC) or JSON
//	columns   MAP from STRING to BYTE_ARRAY: columns that are not declared, or by a prefix, and
//	          values that are not of their column's type
//
// A declared column that is called row or columns, or whose name is not UTF-8, is in the map.
//
// Files of other programs may have other forms and types whose values are the same: see
// parquetfit.go.

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

// leaves is where the columns of a row stand in a file that is written.
type leaves struct {
	row, key, value int
	keyLevel        int            // definition level of an entry of the map
	own             map[string]int // declared columns
}

func leavesOf(s *parquet.Schema) (l leaves) {
	l.own = map[string]int{}
	for i, path := range s.Columns() {
		switch at := strings.Join(path, "."); {
		case at == rowName:
			l.row = i
		case len(path) == 1:
			l.own[at] = i
		case path[len(path)-1] == "key":
			leaf, _ := s.Lookup(path...)
			l.key, l.keyLevel = i, leaf.MaxDefinitionLevel
		default:
			l.value = i
		}
	}
	return l
}

// ParquetWriter writes a Parquet file. It holds the file in memory, as it is encoded. It is not
// safe for concurrent use.
type ParquetWriter struct {
	table  *Table
	leaves leaves
	to     *bytes.Buffer
	w      *parquet.GenericWriter[any]
	width  int
	values [][]parquet.Value // of the row, by leaf
}

// NewParquetWriter begins a file in an empty buffer. The caller closes it, whatever it has written.
func (t *Table) NewParquetWriter(to *bytes.Buffer) *ParquetWriter {
	schema := t.parquetSchema()
	p := &ParquetWriter{table: t, leaves: leavesOf(schema), to: to, width: len(schema.Columns())}
	p.values = make([][]parquet.Value, p.width)
	// The library's own codec keeps its encoders for good. Statistics of pages hold values whole,
	// twice; those of columns are for numbers alone.
	options := []parquet.WriterOption{
		schema, parquet.Compression(&zstd.Codec{Level: parquet.Zstd.Level}), parquet.CreatedBy("percolator", "", ""), parquet.DataPageStatistics(false),
	}
	for _, path := range schema.Columns() {
		if leaf, _ := schema.Lookup(path...); leaf.Node.Type().Kind() == parquet.ByteArray {
			options = append(options, parquet.SkipPageBounds(path...))
		}
	}
	p.w = parquet.NewGenericWriter[any](to, options...)
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
		v, unfit := p.table.typeOf(cell.Column).Decode(cell.Value)
		if unfit != nil {
			mistyped++
		}
		if at, own := p.leaves.own[cell.Column]; own && unfit == nil {
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
		p.values[leaf] = append(p.values[leaf], parquet.ByteArrayValue(value).Level(repetition, p.leaves.keyLevel, leaf))
	}
	entry(p.leaves.key, []byte(NameText(cell.Column)))
	entry(p.leaves.value, cell.Value)
}

// Close ends the file.
func (p *ParquetWriter) Close() error {
	if err := p.w.Close(); err != nil {
		return err
	}
	// The library says of columns without bounds that all values of their pages are empty, so that
	// readers would pass over them.
	return changeFooter(p.to, func(meta *format.FileMetaData) {
		for _, g := range meta.RowGroups {
			for i := range g.Columns {
				g.Columns[i].ColumnIndexOffset, g.Columns[i].ColumnIndexLength = 0, 0
			}
		}
	})
}

// changeFooter changes the metadata of a file.
func changeFooter(file *bytes.Buffer, change func(*format.FileMetaData)) error {
	const end = 4 + len("PAR1")
	b := file.Bytes()
	from := len(b) - end - int(binary.LittleEndian.Uint32(b[len(b)-end:]))
	protocol := &thrift.CompactProtocol{}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(protocol, b[from:len(b)-end], &meta); err != nil {
		return err
	}
	change(&meta)
	footer, err := thrift.Marshal(protocol, &meta)
	if err != nil {
		return err
	}
	file.Truncate(from)
	_, _ = file.Write(footer) // which does not fail
	_, _ = file.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	_, err = file.WriteString("PAR1")
	return err
}
