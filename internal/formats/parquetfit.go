package formats

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/percolator/model"
)

// Files of other programs have other names and types than ours. What is read has the same value:
//
//	time             TIMESTAMP of any unit, INT96, and DATE as its midnight; without a zone in UTC
//	int64            integers of any width, with or without a sign, that an int64 can hold
//	columns          a map whose parts may be called anything, or a list of structs with key and
//	                 value; it may be missing
//	the row key      bytes and text; integers as decimal text, if the caller names the column

// source is where the columns of a row stand in a file that is read.
type source struct {
	row        ownLeaf
	own        []ownLeaf // in the order of the file
	key, value int       // of the map; -1 if there is none
	entry      int       // the least definition level of an entry of the map
}

// ownLeaf is a column of a file that is one of the table.
type ownLeaf struct {
	name string
	of   model.Type
	leaf int
	as   func(parquet.Value) (any, error)
}

// finder looks for the columns of a table in a file.
type finder struct {
	*Table
	s      *parquet.Schema
	key    string // the column that is the row key; "" for row
	failed []string
	seen   map[string]bool
}

// find finds the columns of a file, and refuses those that do not fit.
func (t *Table) find(s *parquet.Schema, key string) (found source, err error) {
	f := &finder{Table: t, s: s, key: key, seen: map[string]bool{}}
	rowKey := rowName
	if key != "" {
		rowKey = key
	}
	found = source{row: ownLeaf{leaf: -1}, key: -1, value: -1}
	var undeclared []string
	for _, field := range s.Fields() {
		name := field.Name()
		if f.seen[name] {
			f.refuse("column %q is there twice", printableName(name))
			continue
		}
		f.seen[name] = true
		c, declared := t.declared(name)
		switch {
		case name == rowKey:
			found.row = f.rowKey(field)
			if key == "" || name == rowName || !declared {
				continue
			}
		case name == cellsName:
			f.findMap(field, &found)
			continue
		case !declared:
			undeclared = append(undeclared, strconv.Quote(printableName(name)))
			continue
		}
		as := reading(c.Type, field)
		if as == nil || field.Repeated() {
			f.misfit(name, field, fitting(c.Type))
			continue
		}
		found.own = append(found.own, ownLeaf{name, c.Type, f.leaf(name), as})
	}
	if found.row.leaf < 0 && !f.seen[rowKey] {
		f.refuse("column %q of the row key is missing, and what fits is %s (--key names another column)", rowKey, fitting(model.TypeBytes))
	}
	if len(undeclared) > 0 {
		f.refuse("%s, or put the values into the file's map %q, as bytes", t.undeclaredText(undeclared), cellsName)
	}
	if len(f.failed) > 0 {
		return found, errors.New(strings.Join(f.failed, "; "))
	}
	return found, nil
}

func (f *finder) refuse(format string, args ...any) {
	f.failed = append(f.failed, fmt.Sprintf(format, args...))
}

func (f *finder) misfit(name string, node parquet.Node, fitting string) {
	f.refuse("column %q is %s, and what fits is %s", printableName(name), typeText(node), fitting)
}

func (f *finder) leaf(path ...string) int {
	leaf, _ := f.s.Lookup(path...)
	return leaf.ColumnIndex
}

// rowKey is the column of row keys.
func (f *finder) rowKey(field parquet.Field) ownLeaf {
	fits, numbers := fitting(model.TypeBytes), " (integers too, where --key names the column)"
	as := reading(model.TypeBytes, field)
	if f.key != "" {
		fits, numbers = fits+" or an integer", ""
		if as == nil {
			as = decimal(field)
		}
	}
	if as == nil || field.Repeated() {
		f.misfit(field.Name(), field, fits+numbers)
		return ownLeaf{leaf: -1}
	}
	return ownLeaf{field.Name(), model.TypeBytes, f.leaf(field.Name()), as}
}

// findMap finds the keys and values of the map. Every writer calls its parts as it likes, so what
// counts is the form: one repeated group with two columns.
func (f *finder) findMap(field parquet.Field, found *source) {
	const fits = "a MAP from STRING to BYTE_ARRAY"
	var within parquet.Node = field
	path, level, annotated := []string{field.Name()}, 0, isMap(field)
	for !within.Repeated() {
		if within.Optional() {
			level++
		}
		fields := fieldsOf(within)
		if len(fields) != 1 {
			f.misfit(field.Name(), field, fits)
			return
		}
		within, path = fields[0], append(path, fields[0].Name())
	}
	entry := level + 1
	fields := fieldsOf(within)
	for len(fields) == 1 && !fields[0].Leaf() && !fields[0].Repeated() { // the element of a list
		path, fields = append(path, fields[0].Name()), fieldsOf(fields[0])
	}
	if len(fields) != 2 {
		f.misfit(field.Name(), field, fits)
		return
	}
	key, value := fields[0], fields[1]
	switch named := [2]string{key.Name(), value.Name()}; {
	case named == [2]string{"value", "key"}:
		key, value = value, key
	case !annotated && named != [2]string{"key", "value"}:
		f.misfit(field.Name(), field, fits)
		return
	}
	for _, part := range []parquet.Field{key, value} {
		at := append(slices.Clone(path), part.Name())
		if reading(model.TypeBytes, part) == nil || part.Repeated() {
			f.misfit(strings.Join(at, "."), part, fitting(model.TypeBytes)+" in a MAP")
		}
	}
	found.key, found.value, found.entry = f.leaf(append(slices.Clone(path), key.Name())...), f.leaf(append(slices.Clone(path), value.Name())...), entry
}

func isMap(n parquet.Node) bool {
	l := n.Type().LogicalType()
	if l == nil {
		return false
	}
	_, is := l.Value.(*format.MapType)
	return is
}

func fieldsOf(n parquet.Node) []parquet.Field {
	if n.Leaf() {
		return nil
	}
	return n.Fields()
}

// reading is how values of a leaf become those of a column; nil if they are others. The logical
// type counts as well: beneath a decimal is an integer that is another number.
func reading(of model.Type, leaf parquet.Node) func(parquet.Value) (any, error) {
	if !leaf.Leaf() {
		return nil
	}
	logical := logicalOf(leaf)
	if _, ok := logical.(*format.NullType); ok {
		return bytesAs[model.TypeBytes] // of nothing: it has only nulls
	}
	kind := leaf.Type().Kind()
	plain := logical == nil && leaf.Type().ConvertedType() == nil // an INTERVAL has no logical type
	switch of {
	case model.TypeInt64, model.TypeOrderedInt64:
		return integer(leaf)
	case model.TypeFloat64:
		if kind == parquet.Double && plain {
			return func(v parquet.Value) (any, error) { return v.Double(), nil }
		}
		return nil
	case model.TypeBool:
		if kind == parquet.Boolean && plain {
			return func(v parquet.Value) (any, error) { return v.Boolean(), nil }
		}
		return nil
	case model.TypeTime:
		return moment(leaf)
	}
	isBytes := of != model.TypeString && of != model.TypeJSON
	fits := kind == parquet.ByteArray
	switch logical.(type) {
	case nil:
		fits = plain && (fits || isBytes && kind == parquet.FixedLenByteArray)
	case *format.StringType, *format.EnumType, *format.JsonType:
	case *format.BsonType:
		fits = fits && isBytes
	default:
		fits = false
	}
	if !fits {
		return nil
	}
	return bytesAs[of]
}

// bytesAs is how bytes become values of a column.
var bytesAs = map[model.Type]func(parquet.Value) (any, error){
	model.TypeBytes:  func(v parquet.Value) (any, error) { return slices.Clone(v.ByteArray()), nil },
	"":               func(v parquet.Value) (any, error) { return slices.Clone(v.ByteArray()), nil },
	model.TypeString: func(v parquet.Value) (any, error) { return string(v.ByteArray()), nil },
	model.TypeJSON:   func(v parquet.Value) (any, error) { return json.RawMessage(slices.Clone(v.ByteArray())), nil },
}

func logicalOf(n parquet.Node) any {
	if l := n.Type().LogicalType(); l != nil {
		return l.Value
	}
	return nil
}

// isInteger tells whether a leaf holds integers.
func isInteger(leaf parquet.Node) (is, unsigned bool) {
	kind, logical := leaf.Type().Kind(), logicalOf(leaf)
	number, annotated := logical.(*format.IntType)
	return leaf.Leaf() && (kind == parquet.Int32 || kind == parquet.Int64) && (logical == nil || annotated), annotated && !number.IsSigned
}

func integer(leaf parquet.Node) func(parquet.Value) (any, error) {
	is, unsigned := isInteger(leaf)
	switch {
	case !is:
		return nil
	case unsigned && leaf.Type().Kind() == parquet.Int32:
		return func(v parquet.Value) (any, error) { return int64(v.Uint32()), nil }
	case unsigned:
		return func(v parquet.Value) (any, error) {
			if v.Uint64() > math.MaxInt64 {
				return nil, errors.New("not a number below 2^63")
			}
			return v.Int64(), nil
		}
	}
	return func(v parquet.Value) (any, error) { return v.Int64(), nil }
}

// decimal reads integers as text.
func decimal(leaf parquet.Node) func(parquet.Value) (any, error) {
	is, unsigned := isInteger(leaf)
	switch {
	case !is:
		return nil
	case unsigned && leaf.Type().Kind() == parquet.Int64:
		return func(v parquet.Value) (any, error) { return strconv.AppendUint(nil, v.Uint64(), 10), nil }
	}
	as := integer(leaf)
	return func(v parquet.Value) (any, error) {
		n, err := as(v)
		if err != nil {
			return nil, err
		}
		return strconv.AppendInt(nil, n.(int64), 10), nil
	}
}

// moment reads times.
func moment(leaf parquet.Node) func(parquet.Value) (any, error) {
	const day = 24 * 60 * 60
	kind := leaf.Type().Kind()
	switch of := logicalOf(leaf).(type) {
	case *format.TimestampType:
		if kind != parquet.Int64 || of.Unit.Value == nil {
			return nil
		}
		switch of.Unit.Value.(type) {
		case *format.MilliSeconds:
			return func(v parquet.Value) (any, error) { return time.UnixMilli(v.Int64()).UTC(), nil }
		case *format.MicroSeconds:
			return func(v parquet.Value) (any, error) { return time.UnixMicro(v.Int64()).UTC(), nil }
		}
		return func(v parquet.Value) (any, error) { return time.Unix(0, v.Int64()).UTC(), nil }
	case *format.DateType:
		return func(v parquet.Value) (any, error) { return time.Unix(v.Int64()*day, 0).UTC(), nil }
	case nil:
		if kind == parquet.Int96 {
			return julian
		}
	}
	return nil
}

// julian reads a time as Spark, Hive and Impala write it: nanoseconds of a day, and its Julian
// number.
func julian(v parquet.Value) (any, error) {
	const day, epoch = 24 * 60 * 60, 2_440_588
	ns := int64(binary.LittleEndian.Uint64(v.ByteArray()))
	if ns < 0 || ns >= day*1e9 {
		return nil, errors.New("not a time of a day")
	}
	return time.Unix((int64(binary.LittleEndian.Uint32(v.ByteArray()[8:]))-epoch)*day, ns).UTC(), nil
}

// fitting says what fits.
func fitting(of model.Type) string {
	switch of {
	case model.TypeString, model.TypeJSON:
		return "STRING, ENUM, JSON or BYTE_ARRAY"
	case model.TypeInt64, model.TypeOrderedInt64:
		return "INT64, INT32 or INT"
	case model.TypeTime:
		return "TIMESTAMP, DATE or INT96"
	case model.TypeFloat64, model.TypeBool:
		return node(of).Type().String()
	}
	return "BYTE_ARRAY, STRING, ENUM, JSON, BSON or FIXED_LEN_BYTE_ARRAY"
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
	return fmt.Sprintf("the file has %s %s, and table %q %s: list %s with its type under columns: of the table in the schema",
		what, text, t.info.Name, declares, all)
}
