package admin

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// planSweep deletes the entries whose cells hold something else, or expire at another time: one
// that outlives its cell has to go before that expires, as no fill sees the cell then. After the
// drain no client makes more of them, so one sweep is enough. A writer that gives such a cell the
// value again writes the entry, and conflicts, or leaves it to the fill.
func (b *backfill) planSweep(ctx context.Context, tx *commit.Txn, entries []model.Entry) ([]*commit.Write, error) {
	cells, values := make([]model.Cell, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		var ok bool
		if cells[i], values[i], ok = catalog.DecodeIndexEntry(b.ix, b.table, e); !ok {
			return nil, catalog.CellError(model.ErrCorrupt, e.Cell, "not an entry of index %q; its key has %d bytes", b.ix.Name, len(e.Cell.Row))
		}
	}
	found, err := b.e.Reads.ReadCells(ctx, tx.StartTimestamp(), cells, len(cells))
	if err != nil {
		return nil, err
	}
	var writes []*commit.Write
	for i, r := range found {
		if r.Value == nil || string(r.Value) != values[i] || r.Record.Expires != entries[i].Expires {
			writes = append(writes, &commit.Write{Cell: entries[i].Cell, Kind: layout.KindDelete, Indexed: cells[i]})
		}
	}
	return writes, nil
}

// planFill writes the entries that the cells lack, and those that expire at another time than their
// cells (I27): a client that did not know the index has put the value again.
func (b *backfill) planFill(ctx context.Context, tx *commit.Txn, cells []model.Entry) ([]*commit.Write, error) {
	entries := make([]model.Cell, len(cells))
	for i, e := range cells {
		if err := catalog.CheckIndexEntry(b.ix, e.Cell, e.Value); err != nil {
			return nil, err
		}
		entries[i] = catalog.IndexEntryCell(b.ix, b.table, string(e.Value), e.Cell.Row)
	}
	found, err := b.e.Reads.ReadCells(ctx, tx.StartTimestamp(), entries, len(entries))
	if err != nil {
		return nil, err
	}
	var writes []*commit.Write
	taken := map[model.Cell]model.Cell{} // by entry, the cell of this batch that gets it
	for i, r := range found {
		cell := cells[i].Cell
		own := r.Value != nil && string(r.Value) == cell.Row
		if own && r.Record.Expires == cells[i].Expires {
			continue
		}
		if other, ok := taken[entries[i]]; ok {
			return nil, b.duplicate(cell, other)
		}
		if r.Value != nil && !own {
			if err := b.checkOwner(ctx, tx, cells[i], model.Cell{Table: b.table, Row: string(r.Value), Column: b.ix.Column}); err != nil {
				return nil, err
			}
		}
		taken[entries[i]] = cell
		writes = append(writes, &commit.Write{Cell: entries[i], Kind: layout.KindPut, Value: []byte(cell.Row), Indexed: cell, Life: layout.Lifetime{Until: cells[i].Expires}})
	}
	return writes, nil
}

// checkOwner is asked about a cell whose entry names another one, owner.
func (b *backfill) checkOwner(ctx context.Context, tx *commit.Txn, e model.Entry, owner model.Cell) error {
	if !b.ix.Unique {
		return catalog.CellError(model.ErrCorrupt, e.Cell, "the entry in index %q names another row", b.ix.Name)
	}
	holds, err := b.e.Reads.HoldsValue(ctx, tx.StartTimestamp(), owner, string(e.Value))
	if err == nil && holds {
		err = b.duplicate(e.Cell, owner)
	}
	return err
}

func (b *backfill) duplicate(a, other model.Cell) error {
	return fmt.Errorf("%w; change one of the two and run BackfillIndex again", &model.UniqueError{Cell: a, Index: b.ix.Name, Holder: other.Row})
}
