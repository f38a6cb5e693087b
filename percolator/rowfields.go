package percolator

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// RowOf returns the rows of a table as values of T, a struct. Each exported field has a tag
// "percolator" that names its column, and options after it:
//
//	type Order struct {
//		Key      string        `percolator:",key"`          // the row key: one field, a string
//		Customer string        `percolator:"customer"`      // as String
//		Items    []Item        `percolator:"items,json"`    // as JSON
//		Cents    int64         `percolator:"cents,ordered"` // as OrderedInt64; else as Int64
//		Shipped  *time.Time    `percolator:"shipped"`       // as Time; nil where there is no value
//		Address  *shop.Address `percolator:"address"`       // as Proto; nil likewise
//		cached   int           //                              not exported, so not stored
//		Note     string        `percolator:"-"`             // nor is this
//	}
//
// The types are string, []byte, int and its sizes, float64, bool and time.Time, types made of them,
// a pointer to a generated message, and with the option json any type. They are stored as the
// Column of the type does it. A pointer to one of them is nil where the column has no value;
// another field is zero there.
//
// Errors: ErrInvalidArgument for a T that is not such a struct, and says what is wrong with which
// field; ErrTooLarge if the names of the columns are more than a filter holds (16 KiB, 4 bytes for
// each byte of a name). Whether the schema has the table and its columns shows when they are used.
func RowOf[T any](table string) (Rows[T], error) {
	key, columns, err := rowFields(reflect.TypeFor[T]())
	if err != nil {
		return Rows[T]{}, err
	}
	return Rows[T]{table: table, key: key, columns: columns}, nil
}

// Columns declares the columns of T with their types, in the order of the fields, for Table.Columns
// of the schema: so the struct alone says what a row has. A []byte and a message are TypeBytes. A
// table with declared columns has no others; those that T leaves out are appended, such as one that
// an observer keeps, as are a TTL and NotifyExpired set in the result, which is the caller's.
func (r Rows[T]) Columns() []ColumnSchema {
	return ordered.Map(r.columns, func(col rowColumn) ColumnSchema {
		return ColumnSchema{Name: col.name, Type: cmp.Or(col.codec.stored, TypeBytes)}
	})
}

// rowFields is where a struct has its key, and the columns of its other fields.
func rowFields(t reflect.Type) (key []int, columns []rowColumn, err error) {
	if t.Kind() != reflect.Struct {
		return nil, nil, rowError(t, "it is not a struct")
	}
	seen, bytes := map[string]bool{}, 0
	for i := range t.NumField() {
		f := t.Field(i)
		col, isKey, err := rowField(f)
		switch {
		case err != nil:
			return nil, nil, rowError(t, "field %s: %v", f.Name, err)
		case isKey && key != nil:
			return nil, nil, rowError(t, "field %s: there is a key already", f.Name)
		case isKey:
			key = f.Index
		case col.name == "":
		case seen[col.name]:
			return nil, nil, rowError(t, "field %s: another field has column %q", f.Name, col.name)
		default:
			columns, seen[col.name] = append(columns, col), true
			bytes += store.PatternBytes(col.name)
		}
	}
	switch {
	case key == nil:
		return nil, nil, rowError(t, "no field has the option key")
	case len(columns) == 0:
		return nil, nil, rowError(t, "no field has a column")
	case bytes > model.MaxFilterBytes:
		return nil, nil, fmt.Errorf("percolator: rows of type %v: %w: the names of its %d columns are more than a filter holds", t, ErrTooLarge, len(columns))
	}
	return key, columns, nil
}

func rowError(t reflect.Type, format string, args ...any) error {
	return fmt.Errorf("percolator: rows of type %v: %w: %s", t, ErrInvalidArgument, fmt.Sprintf(format, args...))
}

// rowColumn is a field that is stored in a column.
type rowColumn struct {
	name    string
	field   []int // where in the struct
	pointer bool  // to what is encoded; nil is absence
	codec   rowCodec
}

// rowCodec encodes values, none of them absent, and decodes into variables.
type rowCodec struct {
	stored model.Type
	encode func(reflect.Value) ([]byte, error)
	decode func([]byte, reflect.Value) error
}

// encoded is the value of a field; nil is absence.
func (c *rowColumn) encoded(v reflect.Value) ([]byte, error) {
	if c.pointer {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	b, err := c.codec.encode(v)
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// decodeTo sets a field to what is stored, which is not absence.
func (c *rowColumn) decodeTo(b []byte, v reflect.Value) error {
	if c.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	return c.codec.decode(b, v)
}

// rowField reads a field's tag. A field that is not stored has no column.
func rowField(f reflect.StructField) (col rowColumn, isKey bool, err error) {
	tag, tagged := f.Tag.Lookup("percolator")
	switch {
	case !f.IsExported() && (tagged || f.Anonymous):
		return col, false, fmt.Errorf("it is not exported")
	case !f.IsExported() || tag == "-":
		return col, false, nil
	case !tagged:
		return col, false, fmt.Errorf(`it has no tag; percolator:"-" leaves it out`)
	}
	name, rest, _ := strings.Cut(tag, ",")
	var asJSON, ordered bool
	for option := range strings.SplitSeq(rest, ",") {
		switch option {
		case "key":
			isKey = true
		case "json":
			asJSON = true
		case "ordered":
			ordered = true
		case "":
		default:
			return col, false, fmt.Errorf("%q is no option; there are key, json and ordered", option)
		}
	}
	if isKey {
		if tag != ",key" || f.Type.Kind() != reflect.String {
			err = fmt.Errorf(`the key is a string with the tag percolator:",key"`)
		}
		return col, true, err
	}
	if err := catalog.ValidateColumn(Cell{Column: name}); err != nil {
		return col, false, fmt.Errorf("%q cannot be the name of a column", name)
	}
	col = rowColumn{name: name, field: f.Index}
	t := f.Type
	if col.pointer = t.Kind() == reflect.Pointer; col.pointer {
		t = t.Elem()
	}
	codec, ok := codecOf(t, asJSON, ordered)
	if !ok || !col.pointer && !asJSON && isMessage(t) { // which must not be copied
		return col, false, fmt.Errorf("%v cannot be stored with the options %q; any type can with json alone", f.Type, rest)
	}
	col.codec = codec
	return col, false, nil
}

var typeOfMessage = reflect.TypeFor[proto.Message]()

// isMessage reports whether a pointer to a struct is a message.
func isMessage(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(typeOfMessage)
}

// codecOf is how values of a type are stored. Of a message it is the struct, behind the pointer.
func codecOf(t reflect.Type, asJSON, ordered bool) (rowCodec, bool) {
	plain := !asJSON && !ordered
	switch k := t.Kind(); {
	case asJSON:
		return rowCodec{model.TypeJSON, func(v reflect.Value) ([]byte, error) { return encodeJSON(v.Interface()) },
			func(b []byte, v reflect.Value) error { return decodeJSON(b, v.Addr().Interface()) }}, !ordered && k != reflect.Chan && k != reflect.Func
	case t == typeOfTime:
		return codecFor(model.TypeTime, values.EncodeTime, values.DecodeTime, func(v reflect.Value) time.Time { return v.Interface().(time.Time) },
			func(v reflect.Value, t time.Time) { v.Set(reflect.ValueOf(t)) }), plain
	case isMessage(t):
		return rowCodec{"", func(v reflect.Value) ([]byte, error) { return encodeProto(v.Addr().Interface().(proto.Message)) },
			func(b []byte, v reflect.Value) error { return decodeProto(b, v.Addr().Interface().(proto.Message)) }}, plain
	case k == reflect.String:
		return codecFor(model.TypeString, func(s string) ([]byte, error) { return []byte(s), nil }, func(b []byte) (string, error) { return string(b), nil },
			reflect.Value.String, reflect.Value.SetString), plain
	case isBytes(t):
		same := func(b []byte) ([]byte, error) { return b, nil }
		return codecFor("", same, same, reflect.Value.Bytes, reflect.Value.SetBytes), plain
	case k >= reflect.Int && k <= reflect.Int64:
		if ordered {
			return codecOfInt(model.TypeOrderedInt64, values.EncodeOrderedInt64, values.DecodeOrderedInt64), true
		}
		return codecOfInt(model.TypeInt64, values.EncodeInt64, values.DecodeInt64), true
	case k == reflect.Float64:
		return codecFor(model.TypeFloat64, encodeFloat64, values.DecodeFloat64, reflect.Value.Float, reflect.Value.SetFloat), plain
	case k == reflect.Bool:
		return codecFor(model.TypeBool, infallible(values.EncodeBool), values.DecodeBool, reflect.Value.Bool, reflect.Value.SetBool), plain
	}
	return rowCodec{}, false
}

// codecFor makes a codec of an encoding, and of how its values get out of a field and into one.
func codecFor[T any](stored model.Type, encode func(T) ([]byte, error), decode func([]byte) (T, error), get func(reflect.Value) T, set func(reflect.Value, T)) rowCodec {
	return rowCodec{stored, func(v reflect.Value) ([]byte, error) { return encode(get(v)) }, func(b []byte, to reflect.Value) error {
		v, err := decode(b)
		if err == nil {
			set(to, v)
		}
		return err
	}}
}

// codecOfInt is that of integers of all sizes, which are stored alike.
func codecOfInt(stored model.Type, encode func(int64) []byte, decode func([]byte) (int64, error)) rowCodec {
	codec := codecFor(stored, infallible(encode), decode, reflect.Value.Int, reflect.Value.SetInt)
	fits := codec.decode
	codec.decode = func(b []byte, to reflect.Value) error {
		if n, err := decode(b); err == nil && to.OverflowInt(n) {
			return fmt.Errorf("the number does not fit into %v", to.Type())
		}
		return fits(b, to)
	}
	return codec
}
