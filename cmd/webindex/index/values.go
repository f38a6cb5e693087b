package index

import (
	"context"

	"github.com/gopercolator/percolator/percolator"
)

// Values reads one column of several rows in one request. Absent cells are zero values.
func Values[T any](ctx context.Context, r percolator.Reader, col percolator.Column[T], rows []string) ([]T, error) {
	cells := make([]percolator.Cell, len(rows))
	for i, row := range rows {
		cells[i] = col.Cell(row)
	}
	stored, err := r.GetMulti(ctx, cells...)
	if err != nil {
		return nil, err
	}
	values := make([]T, len(rows))
	for i, b := range stored {
		if b == nil {
			continue
		}
		if values[i], err = col.Decode(rows[i], b); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Fetched are cells that were read in one request, for [Get] to decode.
type Fetched struct {
	ctx context.Context
	r   percolator.Reader
	err error
}

// Fetch reads cells in one request, into the cache of the reader.
func Fetch(ctx context.Context, r percolator.Reader, cells ...percolator.Cell) *Fetched {
	_, err := r.GetMulti(ctx, cells...)
	return &Fetched{ctx, r, err}
}

// Err is the first error of Fetch and of all calls of Get.
func (f *Fetched) Err() error { return f.err }

// Get returns the value of one of the cells; the zero value if it is absent or there was an error.
func Get[T any](f *Fetched, col percolator.Column[T], row string) (v T) {
	if f.err == nil {
		v, f.err = col.GetOr(f.ctx, f.r, row, v)
	}
	return v
}
