package reads

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// HoldsValue reports whether cell holds value at ts: whether an entry of a unique index is true.
func (r *Reader) HoldsValue(ctx context.Context, ts tso.Timestamp, cell model.Cell, value string) (bool, error) {
	if catalog.ValidateRow(cell) != nil {
		return false, nil
	}
	found, err := r.ReadCells(ctx, ts, []model.Cell{cell}, 1)
	return err == nil && found[0].Value != nil && string(found[0].Value) == value, err
}

// ScanIndex streams the indexed cells that the options select, in the order of their values.
func (s *Snapshot) ScanIndex(ctx context.Context, table string, o model.ScanOptions) iter.Seq2[model.Entry, error] {
	return s.reader.ScanIndex(ctx, s, table, o, nil)
}

// ScanIndex is Snapshot.ScanIndex; merge, if not nil, puts the entries of buffered writes into the
// stream of the index's rows.
func (r *Reader) ScanIndex(ctx context.Context, s *Snapshot, table string, o model.ScanOptions, merge func(model.Index, catalog.Ranges, Rows) Rows) iter.Seq2[model.Entry, error] {
	if err := errors.Join(retry.CheckContext(ctx), CheckLimit(table, o.Limit)); err != nil {
		return Failed[model.Entry](err)
	}
	if len(o.Columns)+len(o.ColumnRanges) > 0 {
		return Failed[model.Entry](fmt.Errorf("percolator: scan of table %q: %w: an index holds the cells of its own column", table, model.ErrInvalidArgument))
	}
	found, err := r.completeIndex(ctx, s.ts, table, o.Index)
	if err != nil {
		return Failed[model.Entry](err)
	}
	ix := found.Index
	keys := SelectedRows(o)
	for i, values := range keys {
		keys[i] = model.Between(catalog.EscapeValue(values.Start), catalog.EscapeValue(values.End))
	}
	stream := r.scan(ctx, s.ts, found.Incarnation, store.Rows{Ranges: keys, Reverse: o.Reverse},
		store.Newest([]string{catalog.IndexColumn}, s.ts, 1), o.Limit)
	if merge != nil {
		stream = merge(ix, keys, stream)
	}
	return func(yield func(model.Entry, error) bool) {
		for e, err := range Entries(stream, o.Limit) {
			if err != nil {
				yield(model.Entry{}, err)
				return
			}
			value, ok := catalog.ValueOf(e.Cell.Row)
			if !ok {
				yield(model.Entry{}, catalog.CellError(model.ErrCorrupt, e.Cell, "not an entry of index %q", ix.Name))
				return
			}
			if !yield(model.Entry{Cell: model.Cell{Table: table, Row: string(e.Value), Column: ix.Column}, Value: []byte(value), CommitTS: e.CommitTS, Expires: e.Expires}, nil) {
				return
			}
		}
	}
}

// completeIndex returns an index on which a snapshot at ts can rely, by knowledge as fresh as every
// read demands: writers maintain no index that was dropped before.
func (r *Reader) completeIndex(ctx context.Context, ts tso.Timestamp, table, index string) (found meta.FoundIndex, err error) {
	if found, err = r.meta.FindIndex(table, index); err == nil {
		found, err = r.meta.FindIndexNow(ctx, table, index)
	}
	switch {
	case err != nil:
		return found, err
	case found.State.Building:
		return found, fmt.Errorf("percolator: table %q: %w: index %q is being built and lacks entries; BackfillIndex finishes it", table, model.ErrSchemaMismatch, index)
	case !found.State.Complete(ts):
		return found, TooOldForIndex(table, index, ts, found.State)
	}
	return found, nil
}

// TooOldForIndex is the ErrSnapshotTooOld of a snapshot at ts that is older than the complete
// index.
func TooOldForIndex(table, index string, ts tso.Timestamp, st model.IndexState) error {
	return meta.Outdated(ts, fmt.Errorf("percolator: table %q: %w: index %q lacks entries at %d; it is complete since %d", table, model.ErrSnapshotTooOld, index, ts, st.Since))
}
