package percolator

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/ordered"
)

// Rows reads and writes rows of one table as structs of type T, each field of which is a column. It
// is a value, made by RowOf: it may be copied and used concurrently.
//
// A row exists if one of T's columns has a value in it. Columns that T does not have are neither
// read nor written.
type Rows[T any] struct {
	table   string
	key     []int // where in T
	columns []rowColumn
}

// Get returns the row with a key, which takes one request. Errors: ErrNotFound if it does not
// exist, ErrCorrupt if a value is not of its field's type, and those of Reader.GetMulti.
func (r Rows[T]) Get(ctx context.Context, from Reader, key string) (T, error) {
	var row T
	if err := r.checkTypes(from); err != nil {
		return row, err
	}
	values, err := from.GetMulti(ctx, r.cells(nil, key)...)
	if err != nil {
		return row, err
	}
	exists, err := r.decode(&row, key, values)
	if err == nil && !exists {
		err = fmt.Errorf("percolator: %s/%q: %w: no column of %T has a value", r.table, key, ErrNotFound, row)
	}
	return row, err
}

// GetMulti returns the rows with these keys, by key, in as few requests as possible. A row that
// does not exist is not in the map. Errors: those of Get but ErrNotFound.
func (r Rows[T]) GetMulti(ctx context.Context, from Reader, keys ...string) (map[string]T, error) {
	rows := make(map[string]T, len(keys))
	_, err := r.eachOf(ctx, from, keys, func(key string, row T) bool {
		rows[key] = row
		return true
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// eachOf reads rows at once and gives those that exist, in the order of keys, until give says that
// it wants no more. It returns how many bytes their values have.
func (r Rows[T]) eachOf(ctx context.Context, from Reader, keys []string, give func(key string, row T) bool) (bytes int, err error) {
	if err := r.checkTypes(from); err != nil {
		return 0, err
	}
	var cells []Cell
	for _, key := range keys {
		cells = r.cells(cells, key)
	}
	values, err := from.GetMulti(ctx, cells...)
	if err != nil {
		return 0, err
	}
	for _, v := range values {
		bytes += len(v)
	}
	n := len(r.columns)
	for i, key := range keys {
		var row T
		exists, err := r.decode(&row, key, values[i*n:(i+1)*n])
		if err != nil {
			return bytes, err
		}
		if exists && !give(key, row) {
			break
		}
	}
	return bytes, nil
}

// Scan streams the rows of a range that exist, in the order of their keys. An error ends the
// stream: ErrCorrupt if a value is not of its field's type, and those of Reader.Scan.
func (r Rows[T]) Scan(ctx context.Context, from Reader, keys Range) iter.Seq2[T, error] {
	return r.rows(from, from.Scan(ctx, r.table, keys, r.names()...))
}

// ScanWith is Scan of the rows that o selects, or ScanIndex with o.Index; they may come from the
// last to the first and to a limit. Errors: ErrInvalidArgument if o selects columns, which are
// those of T; and those of Scan and ScanIndex.
func (r Rows[T]) ScanWith(ctx context.Context, from Scanner, o ScanOptions) iter.Seq2[T, error] {
	switch {
	case len(o.Columns)+len(o.ColumnRanges) > 0:
		return func(yield func(T, error) bool) {
			var none T
			yield(none, fmt.Errorf("percolator: scan of table %q: %w: the columns are those of %T", r.table, ErrInvalidArgument, none))
		}
	case o.Index != "":
		return r.toLimit(ctx, from, o)
	}
	o.Columns = r.names()
	return r.rows(from, from.ScanWith(ctx, r.table, o))
}

// Put stores v. It buffers only the fields that differ from what tx has written to the row, or read
// from it with Get or GetMulti (of Rows or Reader; scans do not count). So fields that stay as they
// were read neither conflict nor notify. Of a row that tx has not read, Put writes every field,
// over what others committed before tx began. A nil pointer deletes its column. A zero field is
// stored like any other, except where tx has read that the row exists without its column, as rows
// do that are older than the field.
//
// Errors: ErrInvalidArgument if a field cannot be encoded; ErrTooLarge if tx does not know the row,
// and has read more cells than it remembers (some 200,000); and those of Txn.Set, after which a
// part of the row may be buffered.
func (r Rows[T]) Put(tx *Txn, v T) error {
	known, exists := map[Cell]reads.Remembered{}, false
	for _, c := range r.cells(nil, reflect.ValueOf(&v).Elem().FieldByIndex(r.key).String()) {
		k, err := tx.t().Known(c)
		if err != nil {
			return err
		}
		known[c], exists = k, exists || k.Exists()
	}
	return r.write(tx, v, func(c Cell, field reflect.Value) bool {
		return exists && known[c].IsAbsent() && field.IsZero()
	}, func(c Cell, value []byte) error {
		switch {
		case known[c].Is(value):
			return nil
		case value == nil:
			return tx.Delete(c)
		}
		return tx.Set(c, value)
	})
}

// Insert is Put of a row that must not exist in the snapshot; otherwise Commit returns ErrExists.
// It writes all fields, and conflicts with other writers of T's columns meanwhile, also where
// a pointer is nil. Other columns of the row may have values.
func (r Rows[T]) Insert(tx *Txn, v T) error {
	return r.write(tx, v, func(Cell, reflect.Value) bool { return false }, func(c Cell, value []byte) error {
		if value == nil {
			return tx.t().InsertNothing(c)
		}
		return tx.Insert(c, value)
	})
}

// Delete removes T's columns from a row, except those that tx knows to have no value, as Put does.
// Errors: ErrTooLarge, as for Put, and those of Txn.Delete.
func (r Rows[T]) Delete(tx *Txn, key string) error {
	for _, c := range r.cells(nil, key) {
		known, err := tx.t().Known(c)
		if err == nil && !known.IsAbsent() {
			err = tx.Delete(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write encodes all fields, nil for absence, before it buffers the first. absent says which fields
// stay without a value.
func (r Rows[T]) write(tx *Txn, v T, absent func(Cell, reflect.Value) bool, buffer func(Cell, []byte) error) error {
	if err := r.checkTypes(tx); err != nil {
		return err
	}
	row := reflect.ValueOf(&v).Elem()
	cells := r.cells(nil, row.FieldByIndex(r.key).String())
	values := make([][]byte, len(cells))
	for i, col := range r.columns {
		field := row.FieldByIndex(col.field)
		if absent(cells[i], field) {
			continue
		}
		var err error
		if values[i], err = col.encoded(field); err != nil {
			return unencodable(cells[i], err)
		}
	}
	for i, c := range cells {
		if err := buffer(c, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// cells appends the cells of a row.
func (r Rows[T]) cells(to []Cell, key string) []Cell {
	for _, col := range r.columns {
		to = append(to, Cell{Table: r.table, Row: key, Column: col.name})
	}
	return to
}

// checkTypes refuses to use a declared column as another type.
func (r Rows[T]) checkTypes(by any) error {
	for _, col := range r.columns {
		if err := checkType(by, Cell{Table: r.table, Column: col.name}, col.codec.stored); err != nil {
			return err
		}
	}
	return nil
}

func (r Rows[T]) names() []string {
	return ordered.Map(r.columns, func(col rowColumn) string { return col.name })
}

// decode sets the fields of a row to the values of its columns, nil for absence, and reports
// whether there are any.
func (r Rows[T]) decode(to *T, key string, values [][]byte) (exists bool, err error) {
	row := reflect.ValueOf(to).Elem()
	row.FieldByIndex(r.key).SetString(key)
	for i, col := range r.columns {
		if values[i] == nil {
			continue
		}
		exists = true
		if err := col.decodeTo(values[i], row.FieldByIndex(col.field)); err != nil {
			return true, catalog.CellError(ErrCorrupt, Cell{Table: r.table, Row: key, Column: col.name}, "%v", err)
		}
	}
	return exists, nil
}

// rows makes rows of the entries of T's columns.
func (r Rows[T]) rows(from any, entries iter.Seq2[Entry, error]) iter.Seq2[T, error] {
	at := make(map[string]int, len(r.columns))
	for i, col := range r.columns {
		at[col.name] = i
	}
	return func(yield func(T, error) bool) {
		if err := r.checkTypes(from); err != nil {
			var none T
			yield(none, err)
			return
		}
		key, values := "", make([][]byte, len(r.columns))
		give := func() bool {
			var row T
			_, err := r.decode(&row, key, values)
			clear(values)
			return yield(row, err) && err == nil
		}
		for e, err := range entries {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if key != e.Cell.Row && key != "" && !give() {
				return
			}
			key, values[at[e.Cell.Column]] = e.Cell.Row, e.Value
		}
		if key != "" {
			give()
		}
	}
}
