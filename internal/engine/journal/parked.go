package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// What is parked can be listed without reading a range of a table: each cell with parked observers
// has a row here, with a column for each of them. It is acknowledged before the row of the cell
// says so, and erased after, so that nothing parked is missing:
//
//	parked:observer   at the newest notification that it is parked for
//	                  version, table, row, column, the observer state as the row of the cell holds it
//
// What stands here is a name and a copy: whether the cell is parked the row of the cell alone says.
// A run and a drop erase it, up to the notification that they dealt with. A retry leaves it to the
// run that follows: another worker may have parked the observer for the same notification again
// meanwhile, and a late request of the worker that parked it may still come.

const (
	parkedPrefix   = "parked:"
	parkedVersion  = 1
	maxParkedBytes = 256 << 10 // of a value
)

var errParked = errors.New("a parked observer that cannot be decoded")

// Parked is the mutation and the row by which the journal lists states, all of one cell, as parked.
func Parked(states ...model.ObserverState) (row string, mut *store.Mutation) {
	mut = store.NewMutation(len(states))
	for _, s := range states {
		if !s.Done {
			mut.Put(layout.JournalFamily, parkedPrefix+s.Observer, s.Through, encodeParked(s))
		}
	}
	return parkedKey(states[0].Cell), mut
}

// Unparked is the mutation that ends it for one observer, up to s.Through.
func Unparked(s model.ObserverState) (row string, mut *store.Mutation) {
	mut = store.NewMutation(1)
	mut.EraseBetween(layout.JournalFamily, parkedPrefix+s.Observer, 0, s.Through+1)
	return parkedKey(s.Cell), mut
}

// ListParked streams what the journal lists as parked, many at once. They come in any order.
func ListParked(ctx context.Context, s *store.Store) iter.Seq2[[]model.ObserverState, error] {
	return func(yield func([]model.ObserverState, error) bool) {
		size := store.PageSize{Rows: store.RequestRows, Bytes: store.PassBytes}
		for page, err := range s.NewPass(model.JournalTable, model.Prefix(string([]byte{parkedShard})), store.JournalCells(), size).Pages(ctx) {
			var list []model.ObserverState
			if err == nil {
				list, err = decodeAllParked(page.Rows)
			}
			if !yield(list, err) || err != nil {
				return
			}
		}
	}
}

func decodeAllParked(rows []layout.Row) (list []model.ObserverState, err error) {
	for _, row := range rows {
		for _, it := range row.Of(layout.JournalFamily) {
			state, err := decodeParked(row.Key, it)
			if err != nil {
				return nil, corrupt(row.Key, err)
			}
			list = append(list, state)
		}
	}
	return list, nil
}

func encodeParked(s model.ObserverState) []byte {
	b := []byte{parkedVersion}
	for _, name := range []string{s.Cell.Table, s.Cell.Row, s.Cell.Column, string(layout.EncodeObserverState(s))} {
		b = appendName(b, name)
	}
	return b
}

// decodeParked never panics, whatever a cell of the row holds.
func decodeParked(key string, it layout.Item) (s model.ObserverState, err error) {
	observer, ok := strings.CutPrefix(it.Column, parkedPrefix)
	if !ok || observer == "" || len(it.Value) == 0 || len(it.Value) > maxParkedBytes {
		return s, errParked
	}
	if it.Value[0] != parkedVersion {
		return s, fmt.Errorf("a parked observer of version %d, and this program knows %d", it.Value[0], parkedVersion)
	}
	if s.Through, err = layout.FromCell(it.Timestamp); err != nil {
		return s, err
	}
	d := decoder{rest: it.Value[1:]}
	s.Observer = observer
	s.Cell = model.Cell{Table: d.name(maxTableBytes), Row: d.name(model.MaxRowKeyBytes), Column: d.name(maxQualifierBytes)}
	value := d.name(maxParkedBytes)
	if d.failed || len(d.rest) > 0 || parkedKey(s.Cell) != key {
		return model.ObserverState{}, errParked
	}
	return s, layout.DecodeObserverState(&s, []byte(value))
}
