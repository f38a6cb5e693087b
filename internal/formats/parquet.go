package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
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
// Files of other programs may have other types whose values are the same: see fits.

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
	row, key, value      int
	keyLevel, valueLevel int // definition levels of what is not null
	own                  map[string]int
	types                []ownLeaf // of own, in the order of the file
}

// ownLeaf is a column of a file that is one of the table.
type ownLeaf struct {
	name string
	of   model.Type
	leaf int
}

// leaves finds the columns of a file, and refuses those that do not fit.
func (t *Table) leaves(s *parquet.Schema) (leaves, error) {
	l := leaves{own: map[string]int{}}
	var failed []string
	find := func(of model.Type, repetition int, path ...string) (at parquet.LeafColumn, there bool) {
		node, there := nodeAt(s, path)
		if !there {
			return at, false
		}
		if node.Leaf() {
			at, there = s.Lookup(path...)
		}
		if !there || !node.Leaf() || at.MaxRepetitionLevel != repetition || !fits(of, node.Type()) {
			name := strings.Join(path, ".")
			failed = append(failed, fmt.Sprintf("column %q is %s, and what fits is %s", name, typeText(node), fitting(of, repetition)))
			return at, false
		}
		return at, true
	}
	need := func(of model.Type, repetition int, path ...string) parquet.LeafColumn {
		before := len(failed)
		at, there := find(of, repetition, path...)
		if !there && len(failed) == before {
			failed = append(failed, fmt.Sprintf("column %q is missing, and what fits is %s", strings.Join(path, "."), fitting(of, repetition)))
		}
		return at
	}
	l.row = need(model.TypeBytes, 0, rowName).ColumnIndex
	key := need(model.TypeBytes, 1, cellsName, "key_value", "key")
	if key.Node != nil && !key.Node.Required() {
		failed = append(failed, fmt.Sprintf("column %q is optional", strings.Join(key.Path, ".")))
	}
	value := need(model.TypeBytes, 1, cellsName, "key_value", "value")
	l.key, l.keyLevel, l.value, l.valueLevel = key.ColumnIndex, key.MaxDefinitionLevel, value.ColumnIndex, value.MaxDefinitionLevel
	var undeclared []string
	for _, field := range s.Fields() {
		name := field.Name()
		if name == rowName || name == cellsName {
			continue
		}
		c, declared := t.declared(name)
		if !declared {
			undeclared = append(undeclared, strconv.Quote(printableName(name)))
		} else if at, there := find(c.Type, 0, name); there {
			l.own[name] = at.ColumnIndex
			l.types = append(l.types, ownLeaf{name, c.Type, at.ColumnIndex})
		}
	}
	if len(undeclared) > 0 {
		failed = append(failed, t.undeclaredText(undeclared))
	}
	if len(failed) > 0 {
		return l, errors.New(strings.Join(failed, "; "))
	}
	return l, nil
}

// declared is the declaration of a column by its name or by a prefix.
func (t *Table) declared(name string) (model.ColumnSchema, bool) {
	if t.info.Declared == nil { // then every column is in the table, as bytes
		return model.ColumnSchema{}, false
	}
	return t.info.Declared.Of(name)
}

// namedColumns is how many columns an error names.
const namedColumns = 10

// undeclaredText says what to do about columns of a file whose type the table does not know. To
// leave them out would lose what they hold.
func (t *Table) undeclaredText(names []string) string {
	what, declares, all := "column", "does not declare it", "it"
	if len(names) > 1 {
		what, declares, all = "columns", "does not declare them", "each"
	}
	if t.info.Declared == nil {
		declares, all = "declares no columns", "every column of the table"
	}
	text := strings.Join(names[:min(len(names), namedColumns)], ", ")
	if more := len(names) - namedColumns; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("the file has %s %s, and table %q %s: list %s with its type under columns: of the table in the schema, or put the values into the file's map %q, as bytes",
		what, text, t.info.Name, declares, all, cellsName)
}

// nodeAt is what a file has at a path, or the leaf in its way.
func nodeAt(s *parquet.Schema, path []string) (at parquet.Node, there bool) {
	at = s
	for _, name := range path {
		if at.Leaf() {
			return at, true
		}
		fields := at.Fields()
		i := slices.IndexFunc(fields, func(f parquet.Field) bool { return f.Name() == name })
		if i < 0 {
			return nil, false
		}
		at = fields[i]
	}
	return at, true
}

// fits reports whether the values of a leaf are those of a column. The logical type counts as well:
// beneath a decimal is an integer that is another number.
func fits(of model.Type, leaf parquet.Type) bool {
	var logical any
	if l := leaf.LogicalType(); l != nil {
		logical = l.Value
	}
	kind := leaf.Kind()
	switch of {
	case model.TypeInt64, model.TypeOrderedInt64:
		number, annotated := logical.(*format.IntType)
		return kind == parquet.Int64 && (logical == nil || annotated && number.IsSigned && number.BitWidth == 64)
	case model.TypeFloat64:
		return kind == parquet.Double && logical == nil
	case model.TypeBool:
		return kind == parquet.Boolean && logical == nil
	case model.TypeTime:
		return kind == parquet.Int64 && leaf.String() == node(of).Type().String()
	}
	bytes := of != model.TypeString && of != model.TypeJSON
	switch logical.(type) {
	case nil:
		// An INTERVAL has no logical type.
		return kind == parquet.ByteArray || bytes && leaf.ConvertedType() == nil && kind == parquet.FixedLenByteArray
	case *format.StringType, *format.EnumType, *format.JsonType:
		return kind == parquet.ByteArray
	case *format.BsonType:
		return bytes && kind == parquet.ByteArray
	}
	return false
}

// fitting says what fits.
func fitting(of model.Type, repetition int) string {
	text := "BYTE_ARRAY, STRING, ENUM, JSON, BSON or FIXED_LEN_BYTE_ARRAY"
	switch of {
	case model.TypeString, model.TypeJSON:
		text = "STRING, ENUM, JSON or BYTE_ARRAY"
	case model.TypeInt64, model.TypeOrderedInt64, model.TypeFloat64, model.TypeBool, model.TypeTime:
		text = node(of).Type().String()
	}
	if repetition > 0 {
		return text + " in a MAP"
	}
	return text
}

// typeText is the type of a column of a file, as Parquet calls it.
func typeText(n parquet.Node) string {
	text := "a group"
	if n.Leaf() || n.Type().LogicalType() != nil {
		text = n.Type().String()
	}
	if n.Repeated() {
		return "repeated " + text
	}
	return text
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
func (p *ParquetWriter) Close() error { return p.w.Close() }
