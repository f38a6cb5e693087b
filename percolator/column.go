package percolator

import (
	"context"
	"errors"
	"iter"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// Cell names the column's cell in a row.
func (c Column[T]) Cell(row string) Cell { return Cell{Table: c.Table, Row: row, Column: c.Name} }

// Decode decodes bytes that the caller got elsewhere, as the value of the column in a row, whatever
// the schema declares. Errors: ErrCorrupt if they are not of the type.
func (c Column[T]) Decode(row string, b []byte) (T, error) {
	v, err := c.decode(b)
	if err != nil {
		return v, catalog.CellError(ErrCorrupt, c.Cell(row), "%v", err)
	}
	return v, nil
}

// DecodeEntry decodes an entry that r has read, of this or another column with values of the type.
// Errors: ErrInvalidArgument where the schema declares that column with another type, ErrCorrupt if
// the bytes are not of the type.
func (c Column[T]) DecodeEntry(r Reader, e Entry) (v T, err error) {
	if err := checkType(r, e.Cell, c.stored); err != nil {
		return v, err
	}
	c.Name = e.Cell.Column
	return c.Decode(e.Cell.Row, e.Value)
}

// Type returns the only type, besides TypeBytes, with which a schema may declare the column; "":
// any.
func (c Column[T]) Type() Type { return c.stored }

// Get returns the column's value in a row. Errors: ErrNotFound, ErrCorrupt if the bytes are not of
// the type, and those of Reader.Get.
func (c Column[T]) Get(ctx context.Context, r Reader, row string) (T, error) {
	return c.get(ctx, r, row, r.Get)
}

func (c Column[T]) get(ctx context.Context, from any, row string, read func(context.Context, Cell) ([]byte, error)) (v T, err error) {
	if err := checkType(from, c.Cell(row), c.stored); err != nil {
		return v, err
	}
	b, err := read(ctx, c.Cell(row))
	if err != nil {
		return v, err
	}
	return c.Decode(row, b)
}

// checkType refuses to use a declared column as another type. Readers of other packages know of no
// declarations.
func checkType(by any, c Cell, as model.Type) error {
	switch by := by.(type) {
	case *Txn:
		return by.t().CheckType(c, as)
	case *Snapshot:
		return by.r().CheckType(c, as)
	}
	return nil
}

// checkIndex refuses an index as one over a column that it does not cover.
func checkIndex(by Reader, c Cell, index string) error {
	switch by := by.(type) {
	case *Txn:
		return by.t().CheckIndex(c, index)
	case *Snapshot:
		return by.r().CheckIndex(c, index)
	}
	return nil
}

// GetOr is Get, and returns absent where there is no value.
func (c Column[T]) GetOr(ctx context.Context, r Reader, row string, absent T) (T, error) {
	v, err := c.Get(ctx, r, row)
	if errors.Is(err, ErrNotFound) {
		return absent, nil
	}
	return v, err
}

// GetMulti returns the column's values in several rows, by row, with as few requests as possible. A
// row without a value is not in the map. Errors: those of Get but ErrNotFound.
func (c Column[T]) GetMulti(ctx context.Context, r Reader, rows ...string) (map[string]T, error) {
	if err := checkType(r, c.Cell(""), c.stored); err != nil {
		return nil, err
	}
	cells := ordered.Map(rows, c.Cell)
	found, err := r.GetMulti(ctx, cells...)
	if err != nil {
		return nil, err
	}
	values := make(map[string]T, len(rows))
	for i, b := range found {
		if b == nil {
			continue
		}
		if values[rows[i]], err = c.Decode(rows[i], b); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// GetForUpdate is Get, and makes tx conflict with concurrent writers of the cell
// (Txn.GetForUpdate).
func (c Column[T]) GetForUpdate(ctx context.Context, tx *Txn, row string) (T, error) {
	return c.get(ctx, tx, row, tx.GetForUpdate)
}

// Set buffers a value. Errors: ErrInvalidArgument if it cannot be encoded, and those of Txn.Set.
func (c Column[T]) Set(tx *Txn, row string, v T) error {
	return c.put(tx, row, v, tx.Set)
}

// Insert is Set for a cell that must have no value; otherwise Commit returns ErrExists.
func (c Column[T]) Insert(tx *Txn, row string, v T) error {
	return c.put(tx, row, v, tx.Insert)
}

func (c Column[T]) put(tx *Txn, row string, v T, buffer func(Cell, []byte) error) error {
	if err := checkType(tx, c.Cell(row), c.stored); err != nil {
		return err
	}
	b, err := c.encoded(row, v)
	if err != nil {
		return err
	}
	return buffer(c.Cell(row), b)
}

func (c Column[T]) encoded(row string, v T) ([]byte, error) {
	b, err := c.encode(v)
	if err != nil {
		return nil, unencodable(c.Cell(row), err)
	}
	return b, nil
}

// unencodable is the error of a value that has no bytes.
func unencodable(c Cell, err error) error {
	return catalog.CellError(ErrInvalidArgument, c, "the value cannot be encoded: %v", err)
}

// Delete buffers a deletion, as Txn.Delete does.
func (c Column[T]) Delete(tx *Txn, row string) error { return tx.Delete(c.Cell(row)) }

// Notify buffers a weak notification, as Txn.Notify does.
func (c Column[T]) Notify(tx *Txn, row string) error { return tx.Notify(c.Cell(row)) }

// Scan streams, in row order, the rows of the range that have a value in the column. An error ends
// the stream: ErrCorrupt if a value is not of the type, and those of Reader.Scan.
func (c Column[T]) Scan(ctx context.Context, r Reader, rows Range) iter.Seq2[TypedEntry[T], error] {
	return c.typed(r, r.Scan(ctx, c.Table, rows, c.Name))
}

// ScanWith scans the cells that o selects and decodes each as the column's type. If o selects no
// columns, it scans this column. With o.ColumnRanges it reads many columns of one type from each
// row; with o.Index it is ScanIndex with a direction and a limit.
func (c Column[T]) ScanWith(ctx context.Context, r Scanner, o ScanOptions) iter.Seq2[TypedEntry[T], error] {
	if o.Index != "" {
		return c.typed(r, c.indexed(r, o.Index, r.ScanWith(ctx, c.Table, o)))
	}
	if len(o.Columns)+len(o.ColumnRanges) == 0 {
		o.Columns = []string{c.Name}
	}
	return c.typed(r, r.ScanWith(ctx, c.Table, o))
}

// ScanIndex streams the rows whose value in the column lies in values, in the order of values, then
// rows. index is one over this column; Exactly and Between make ranges of values. Errors end the
// stream: ErrInvalidArgument for an index of another column, ErrCorrupt for a value that is not
// of the type, and those of Reader.ScanIndex.
func (c Column[T]) ScanIndex(ctx context.Context, r Reader, index string, values Range) iter.Seq2[TypedEntry[T], error] {
	return c.typed(r, c.indexed(r, index, r.ScanIndex(ctx, c.Table, index, values)))
}

// indexed refuses an index of another column, or ends the stream at the first entry of one where
// the reader does not know.
func (c Column[T]) indexed(from Reader, index string, entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := checkIndex(from, c.Cell(""), index); err != nil {
			yield(Entry{}, err)
			return
		}
		for e, err := range entries {
			if err == nil && e.Cell.Column != c.Name {
				e, err = Entry{}, catalog.CellError(ErrInvalidArgument, e.Cell, "index %q is not over column %q", index, c.Name)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Exactly is the range of the one value v in an index over the column. Errors: ErrInvalidArgument
// if v cannot be encoded.
func (c Column[T]) Exactly(v T) (Range, error) {
	b, err := c.encoded("", v)
	return Exactly(b), err
}

// Between is the half-open range from ≤ value < to in an index over the column, whose bytes must
// sort as its values do: String, OrderedInt64, Float64, Bool and Time. For a range with one bound,
// set Start or End of the result to the empty string. Errors: ErrInvalidArgument if a bound cannot
// be encoded.
func (c Column[T]) Between(from, to T) (Range, error) {
	start, err := c.encoded("", from)
	if err != nil {
		return Range{}, err
	}
	end, err := c.encoded("", to)
	if err != nil {
		return Range{}, err
	}
	return Between(string(start), string(end)), nil
}

// typed decodes entries.
func (c Column[T]) typed(from Reader, entries iter.Seq2[Entry, error]) iter.Seq2[TypedEntry[T], error] {
	return func(yield func(TypedEntry[T], error) bool) {
		for e, err := range entries {
			te := TypedEntry[T]{Entry: e}
			if err == nil {
				te.Value, err = c.DecodeEntry(from, e)
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
