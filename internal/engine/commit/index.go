package commit

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// indexChange is what one write does to one index.
type indexChange struct {
	ix       model.Index
	cell     model.Cell // the indexed cell
	old, new *string
	life     layout.Lifetime // of the cell and its entry

	// careful: a unique index may be incomplete in the snapshot. Two rows may hold one value, and
	// its entry belongs to at most one of them. foreign: the entry of old belongs to another row
	// than this one.
	careful, foreign bool
}

// withIndexes appends the index entries that the writes imply and checks unique indexes.
func (tx *Txn) withIndexes(ctx context.Context, writes []*Write) ([]*Write, error) {
	changes, err := tx.indexChanges(ctx, writes)
	if err != nil || len(changes) == 0 {
		return writes, err
	}
	if err := tx.findForeign(ctx, changes); err != nil {
		return nil, err
	}
	entries, err := indexEntries(changes)
	if err != nil {
		return nil, err
	}
	if err := tx.checkUnique(ctx, changes); err != nil {
		return nil, err
	}
	return append(slices.Clip(writes), entries...), nil
}

// indexChanges reads the old values of indexed cells in the snapshot. No other transaction can
// change them before the commit without a conflict, because this one writes them.
func (tx *Txn) indexChanges(ctx context.Context, writes []*Write) ([]indexChange, error) {
	cat := tx.c.Meta.Catalog.Load()
	var cells []model.Cell
	var indexed []*Write
	for _, w := range writes {
		if info, ok := cat.UserTable(w.Cell.Table); ok && w.Kind.Changes() && len(info.IndexesOf[w.Cell.Column]) > 0 {
			cells, indexed = append(cells, w.Cell), append(indexed, w)
		}
	}
	if len(cells) == 0 {
		return nil, nil
	}
	old, expires, err := tx.snap.GetExpiring(ctx, cells)
	if err != nil {
		return nil, err
	}
	var changes []indexChange
	for i, w := range indexed {
		info, _ := cat.UserTable(w.Cell.Table)
		for _, ix := range info.IndexesOf[w.Cell.Column] {
			ch, err := tx.indexChange(ix, w, old[i])
			if err != nil {
				return nil, err
			}
			// The entry of the same value expires with the old cell, so it is written again unless
			// neither that nor the new one expires (I27). The old one may have had another TTL.
			if ch.old == nil || ch.new == nil || *ch.old != *ch.new || expires[i] != 0 || ch.life != (layout.Lifetime{}) {
				changes = append(changes, ch)
			}
		}
	}
	return changes, nil
}

func (tx *Txn) indexChange(ix model.Index, w *Write, old []byte) (indexChange, error) {
	ch := indexChange{ix: ix, cell: w.Cell, life: w.Life}
	ch.careful = ix.Unique && !tx.c.Meta.IndexState(ix, w.Cell.Table).Complete(tx.StartTimestamp())
	// A value older than the index may be too long.
	if old != nil && catalog.CheckIndexEntry(ix, w.Cell, old) == nil {
		s := string(old)
		ch.old = &s
	}
	if w.Kind == layout.KindPut {
		// The value may have been buffered before the index was known.
		if err := catalog.CheckIndexEntry(ix, w.Cell, w.Value); err != nil {
			return ch, err
		}
		s := string(w.Value)
		ch.new = &s
	}
	return ch, nil
}

// findForeign looks at the entries that careful changes would release. Of two rows that share a
// value only one has the entry, and the other must not take it away.
func (tx *Txn) findForeign(ctx context.Context, changes []indexChange) error {
	var cells []model.Cell
	var of []*indexChange
	for i := range changes {
		if ch := &changes[i]; ch.careful && ch.old != nil {
			cells, of = append(cells, catalog.IndexEntryCell(ch.ix, ch.cell.Table, *ch.old, ch.cell.Row)), append(of, ch)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	found, err := tx.c.Reads.ReadCells(ctx, tx.StartTimestamp(), cells, len(cells))
	if err != nil {
		return err
	}
	for i, r := range found {
		of[i].foreign = r.Value != nil && string(r.Value) != of[i].cell.Row
	}
	return nil
}

// indexEntries turns changes into writes. Releases come first, so that a transaction may hand a
// unique value from one row to another.
func indexEntries(changes []indexChange) ([]*Write, error) {
	byCell := map[model.Cell]*Write{}
	var out []*Write
	put := func(w *Write) {
		if old := byCell[w.Cell]; old != nil {
			*old = *w
			return
		}
		byCell[w.Cell] = w
		out = append(out, w)
	}
	for _, ch := range changes {
		if ch.old == nil {
			continue
		}
		w := &Write{Cell: catalog.IndexEntryCell(ch.ix, ch.cell.Table, *ch.old, ch.cell.Row), Kind: layout.KindDelete, Indexed: ch.cell}
		if ch.foreign { // conflicts with any writer of the entry, a backfill above all
			if w.Kind = layout.KindLock; byCell[w.Cell] != nil {
				continue
			}
		}
		put(w)
	}
	for _, ch := range changes {
		if ch.new == nil {
			continue
		}
		cell := catalog.IndexEntryCell(ch.ix, ch.cell.Table, *ch.new, ch.cell.Row)
		if w := byCell[cell]; w != nil && w.Kind == layout.KindPut && string(w.Value) != ch.cell.Row {
			return nil, sameValue(ch.ix, ch.cell, string(w.Value))
		}
		put(&Write{Cell: cell, Kind: layout.KindPut, Value: []byte(ch.cell.Row), Indexed: ch.cell, Life: ch.life})
	}
	return out, nil
}

// sameValue is the ErrUnique of a cell to which the transaction gives the value of another row.
func sameValue(ix model.Index, c model.Cell, row string) error {
	return &model.UniqueError{Cell: c, Index: ix.Name, Holder: row, Own: true}
}

// checkUnique reads the entries that the transaction is about to take. indexEntries has turned
// those that it releases itself into puts; they must not count as taken by another row.
func (tx *Txn) checkUnique(ctx context.Context, changes []indexChange) error {
	released := map[model.Cell]bool{}
	for _, ch := range changes {
		if ch.ix.Unique && ch.old != nil && !ch.foreign {
			released[catalog.IndexEntryCell(ch.ix, ch.cell.Table, *ch.old, ch.cell.Row)] = true
		}
	}
	var cells []model.Cell
	var of []indexChange
	for _, ch := range changes {
		if ch.ix.Unique && ch.new != nil {
			if cell := catalog.IndexEntryCell(ch.ix, ch.cell.Table, *ch.new, ch.cell.Row); !released[cell] {
				cells, of = append(cells, cell), append(of, ch)
			}
		}
	}
	if len(cells) == 0 {
		return nil
	}
	found, err := tx.c.Reads.ReadCells(ctx, tx.StartTimestamp(), cells, len(cells))
	if err != nil {
		return err
	}
	for i, r := range found {
		if r.Value == nil || string(r.Value) == of[i].cell.Row {
			continue
		}
		holder := of[i].cell
		holder.Row = string(r.Value)
		if of[i].careful {
			if holds, err := tx.c.Reads.HoldsValue(ctx, tx.StartTimestamp(), holder, *of[i].new); err != nil || !holds {
				if err != nil {
					return err
				}
				continue // left by a client that did not know the index
			}
		}
		return &model.UniqueError{Cell: of[i].cell, Index: of[i].ix.Name, Holder: holder.Row}
	}
	return nil
}
