package percolator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// Column encodes and decodes the values of one column, which have type T. It is a value: it may be
// copied and used concurrently. It must come from Bytes, String, Int64, JSON or Proto.
type Column[T any] struct {
	Table, Name string
	encode      func(T) ([]byte, error)
	decode      func([]byte) (T, error)
}

// Bytes is a column of plain bytes.
func Bytes(table, column string) Column[[]byte] {
	return Column[[]byte]{table, column, func(v []byte) ([]byte, error) { return v, nil }, func(b []byte) ([]byte, error) { return b, nil }}
}

// String is a column of strings.
func String(table, column string) Column[string] {
	return Column[string]{table, column, func(v string) ([]byte, error) { return []byte(v), nil }, func(b []byte) (string, error) { return string(b), nil }}
}

// Int64 is a column of integers, stored as 8 bytes big-endian, the encoding of Bigtable's own
// counters.
func Int64(table, column string) Column[int64] {
	return Column[int64]{table, column,
		func(v int64) ([]byte, error) { return binary.BigEndian.AppendUint64(nil, uint64(v)), nil },
		func(b []byte) (int64, error) {
			if len(b) != 8 {
				return 0, fmt.Errorf("%d bytes are not an int64", len(b))
			}
			return int64(binary.BigEndian.Uint64(b)), nil
		}}
}

// JSON is a column of values encoded by encoding/json.
func JSON[T any](table, column string) Column[T] {
	return Column[T]{table, column, func(v T) ([]byte, error) { return json.Marshal(v) }, func(b []byte) (T, error) {
		var v T
		if err := json.Unmarshal(b, &v); err != nil {
			return v, errors.New("not the JSON of the column's type") // the library's message may quote the value
		}
		return v, nil
	}}
}

// Proto is a column of protocol buffers; T is a pointer to a generated message.
func Proto[T proto.Message](table, column string) Column[T] {
	return Column[T]{table, column,
		func(v T) ([]byte, error) { return proto.MarshalOptions{Deterministic: true}.Marshal(v) },
		func(b []byte) (T, error) {
			var zero T
			v := reflect.New(reflect.TypeOf(zero).Elem()).Interface().(T)
			if err := proto.Unmarshal(b, v); err != nil {
				return zero, errors.New("not a message of the column's type")
			}
			return v, nil
		}}
}

// Cell names the column's cell in a row.
func (c Column[T]) Cell(row string) Cell { return Cell{Table: c.Table, Row: row, Column: c.Name} }

// Decode decodes bytes that the caller got elsewhere, as the value of the column in a row. Errors:
// ErrCorrupt if they are not of the type.
func (c Column[T]) Decode(row string, b []byte) (T, error) {
	v, err := c.decode(b)
	if err != nil {
		return v, model.CellError(ErrCorrupt, c.Cell(row), "%v", err)
	}
	return v, nil
}

// Get returns the column's value in a row. Errors: ErrNotFound, ErrCorrupt if the bytes are not of
// the type, and those of Reader.Get.
func (c Column[T]) Get(ctx context.Context, r Reader, row string) (T, error) {
	b, err := r.Get(ctx, c.Cell(row))
	if err != nil {
		var zero T
		return zero, err
	}
	return c.Decode(row, b)
}

// GetOr is Get, and returns absent where there is no value.
func (c Column[T]) GetOr(ctx context.Context, r Reader, row string, absent T) (T, error) {
	v, err := c.Get(ctx, r, row)
	if errors.Is(err, ErrNotFound) {
		return absent, nil
	}
	return v, err
}

// GetForUpdate is Get, and makes tx conflict with concurrent writers of the cell
// (Txn.GetForUpdate).
func (c Column[T]) GetForUpdate(ctx context.Context, tx *Txn, row string) (T, error) {
	b, err := tx.GetForUpdate(ctx, c.Cell(row))
	if err != nil {
		var zero T
		return zero, err
	}
	return c.Decode(row, b)
}

// Set buffers a value. Errors: ErrInvalidArgument if it cannot be encoded, and those of Txn.Set.
func (c Column[T]) Set(tx *Txn, row string, v T) error {
	b, err := c.encode(v)
	if err != nil {
		return model.CellError(ErrInvalidArgument, c.Cell(row), "the value cannot be encoded")
	}
	return tx.Set(c.Cell(row), b)
}

// Insert is Set for a cell that must have no value; otherwise Commit returns ErrExists.
func (c Column[T]) Insert(tx *Txn, row string, v T) error {
	b, err := c.encode(v)
	if err != nil {
		return model.CellError(ErrInvalidArgument, c.Cell(row), "the value cannot be encoded")
	}
	return tx.Insert(c.Cell(row), b)
}

// Delete buffers a deletion, as Txn.Delete does.
func (c Column[T]) Delete(tx *Txn, row string) error { return tx.Delete(c.Cell(row)) }

// Notify buffers a weak notification, as Txn.Notify does.
func (c Column[T]) Notify(tx *Txn, row string) error { return tx.Notify(c.Cell(row)) }

// Scan streams, in row order, the rows of the range that have a value in the column. An error ends
// the stream: ErrCorrupt if a value is not of the type, and those of Reader.Scan.
func (c Column[T]) Scan(ctx context.Context, r Reader, rows Range) iter.Seq2[TypedEntry[T], error] {
	return c.typed(r.Scan(ctx, c.Table, rows, c.Name))
}

// ScanWith is Scan of the cells that o selects, all of which have values of the column's type;
// where o selects no columns, of the column. So a row may hold many values of one type, in columns
// of which a program reads ranges.
func (c Column[T]) ScanWith(ctx context.Context, r Scanner, o ScanOptions) iter.Seq2[TypedEntry[T], error] {
	if len(o.Columns)+len(o.ColumnRanges) == 0 {
		o.Columns = []string{c.Name}
	}
	return c.typed(r.ScanWith(ctx, c.Table, o))
}

// typed decodes entries.
func (c Column[T]) typed(entries iter.Seq2[Entry, error]) iter.Seq2[TypedEntry[T], error] {
	return func(yield func(TypedEntry[T], error) bool) {
		for e, err := range entries {
			te := TypedEntry[T]{Entry: e}
			if err == nil {
				of := c
				of.Name = e.Cell.Column
				te.Value, err = of.Decode(e.Cell.Row, e.Value)
			}
			if !yield(te, err) || err != nil {
				return
			}
		}
	}
}

// TypedEntry is an Entry with its value decoded.
type TypedEntry[T any] struct {
	Entry
	Value T // shadows Entry.Value, the bytes
}

// Reader is what *Txn and *Snapshot share. All its answers come from one snapshot, however long
// they take.
type Reader interface {
	// StartTimestamp returns the timestamp of the snapshot.
	StartTimestamp() tso.Timestamp
	// Get returns a cell's value, or ErrNotFound where there is none. An empty value is not absence.
	Get(ctx context.Context, c Cell) ([]byte, error)
	// GetMulti returns the values in order, nil where there is none.
	GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error)
	// Scan streams entries in row order, then column order; no columns means all.
	Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error]
	// ScanIndex streams the indexed cells whose value lies in values, in the order of values, then
	// rows.
	ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error]
}

// Scanner is a Reader that also scans several ranges of rows, and ranges of columns. *Txn and
// *Snapshot are Scanners.
type Scanner interface {
	Reader
	// ScanWith streams the entries that o selects, in the order of Scan.
	ScanWith(ctx context.Context, table string, o ScanOptions) iter.Seq2[Entry, error]
}
