package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// followMost is how many writes a scan adds to an ownIndex before it looks at its size.
const followMost = 8 * store.RequestRows

// ownIndex is what the transaction's own writes make of one index. Each scan of the index adds the
// writes since the last one. It reads the old value of a cell once, when that is first written.
//
// Memory: the entries that the writes make and remove, at most MaxTxnBytes as that counts writes,
// and those of followMost writes more. Those that are removed may be much longer than the writes
// that remove them.
type ownIndex struct {
	ix    model.Index
	table string            // of the index
	ahead map[string]*Write // by row: writes that the entries lack; Txn.mu guards it

	turn    *semaphore.Weighted // guards what follows, also while old values are read
	rows    map[string]*ownRow
	entries map[string]*ownEntry // by key
	sorted  ownWrites            // the writes of entries
	bytes   int                  // of entries
	clashes map[string]*ownEntry // that several rows take
}

// ownRow is what the write of one row does to an index, by the keys of entries; "" is none.
type ownRow struct {
	cell     model.Cell
	place    int    // of the write in Txn.order
	stored   string // the entry in the snapshot
	expires  bool   // that does
	released string // the entry that the write removes, unless another one takes it
	taken    string // the entry that it makes
}

// ownEntry is an entry that writes make or remove.
type ownEntry struct {
	write    Write
	releases int       // writes that remove it
	takers   []*ownRow // that make it; several in a unique index: ErrUnique
}

// ScanIndex merges the transaction's own entries into a scan of the index.
func (tx *Txn) ScanIndex(ctx context.Context, table string, o model.ScanOptions) iter.Seq2[model.Entry, error] {
	if err := errors.Join(tx.open(), tx.mayRead(model.Cell{Table: table})); err != nil {
		return reads.Failed[model.Entry](err)
	}
	return tx.locking(tx.c.Reads.ScanIndex(ctx, tx.snap, table, o, func(ix model.Index, keys catalog.Ranges, stream reads.Rows) reads.Rows {
		mine, err := tx.ownEntries(ctx, table, ix, keys, o)
		if err != nil {
			return reads.Failed[[]model.Entry](err)
		}
		return mergeOwn(stream, mine, o.Reverse)
	}))
}

// ownEntries lists the entries that the transaction's writes make or remove, as far as a scan of
// the keys needs them.
func (tx *Txn) ownEntries(ctx context.Context, table string, ix model.Index, keys catalog.Ranges, o model.ScanOptions) ([]Write, error) {
	own := tx.ownIndex(table, ix)
	if err := own.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer own.turn.Release(1)
	writes, err := tx.takeAhead(own)
	if err != nil {
		return nil, err
	}
	if err := own.follow(ctx, tx.snap, writes); err != nil {
		tx.putBack(own, writes)
		return nil, err
	}
	if err := own.clash(); err != nil {
		return nil, err
	}
	return selected(&own.sorted, own.table, keys, catalog.Ranges{model.All()}, o), nil
}

// ownIndex is what the transaction keeps of an index.
func (tx *Txn) ownIndex(table string, ix model.Index) *ownIndex {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	column := model.Cell{Table: table, Column: ix.Column}
	for _, own := range tx.indexes[column] {
		if own.ix == ix {
			return own
		}
	}
	own := &ownIndex{ix: ix, table: catalog.IndexTable(table, ix), ahead: map[string]*Write{}, turn: semaphore.NewWeighted(1),
		rows: map[string]*ownRow{}, entries: map[string]*ownEntry{}, clashes: map[string]*ownEntry{}}
	for _, w := range tx.order {
		if w.Cell.Table == table && w.Cell.Column == ix.Column && w.Kind.Changes() {
			own.ahead[w.Cell.Row] = w
		}
	}
	if tx.indexes == nil {
		tx.indexes = map[model.Cell][]*ownIndex{}
	}
	tx.indexes[column] = append(tx.indexes[column], own)
	return own
}

// takeAhead removes the writes that an index lacks, and returns them in the order of the
// transaction.
func (tx *Txn) takeAhead(own *ownIndex) ([]Write, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	switch {
	case tx.done:
		return nil, errTxnDone()
	case len(own.ahead) == 0:
		return nil, nil
	}
	writes := make([]Write, 0, len(own.ahead))
	for _, w := range own.ahead {
		writes = append(writes, *w)
	}
	own.ahead = map[string]*Write{} // a new one: a map never shrinks, and range visits all of it
	slices.SortFunc(writes, func(a, b Write) int { return cmp.Compare(a.place, b.place) })
	return writes, nil
}

// putBack notes that an index still lacks writes.
func (tx *Txn) putBack(own *ownIndex, writes []Write) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, w := range writes {
		own.ahead[w.Cell.Row] = tx.order[w.place]
	}
}

// follow adds writes to the entries.
func (own *ownIndex) follow(ctx context.Context, snap *reads.Snapshot, writes []Write) error {
	for part := range slices.Chunk(writes, followMost) {
		if err := own.readStored(ctx, snap, part); err != nil {
			return err
		}
		for _, w := range part {
			if err := own.add(w); err != nil {
				return err
			}
		}
		if own.bytes > model.MaxTxnBytes {
			return fmt.Errorf("percolator: scan of index %q of column %q: %w: the entries that the transaction's own writes make and remove have more than %d bytes",
				own.ix.Name, own.ix.Column, model.ErrTooLarge, model.MaxTxnBytes)
		}
	}
	return nil
}

// readStored reads the old values of rows that are new here.
func (own *ownIndex) readStored(ctx context.Context, snap *reads.Snapshot, writes []Write) error {
	var fresh []Write
	var cells []model.Cell
	for _, w := range writes {
		if own.rows[w.Cell.Row] == nil {
			fresh, cells = append(fresh, w), append(cells, w.Cell)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	values, expires, err := snap.GetExpiring(ctx, cells)
	if err != nil {
		return err
	}
	for i, w := range fresh {
		row := &ownRow{cell: w.Cell, place: w.place, expires: expires[i] != 0}
		// A value older than the index may be too long.
		if values[i] != nil && catalog.CheckIndexEntry(own.ix, w.Cell, values[i]) == nil {
			row.stored = own.key(w.Cell, values[i])
		}
		own.rows[w.Cell.Row] = row
	}
	return nil
}

// key is that of the entry of a value.
func (own *ownIndex) key(c model.Cell, value []byte) string {
	return catalog.IndexEntryCell(own.ix, c.Table, string(value), c.Row).Row
}

// add has the entries follow a write instead of an earlier one of its cell.
func (own *ownIndex) add(w Write) error {
	row, taken := own.rows[w.Cell.Row], ""
	if w.Kind == layout.KindPut {
		// The value may have been buffered before the index was known.
		if err := catalog.CheckIndexEntry(own.ix, w.Cell, w.Value); err != nil {
			return err
		}
		taken = own.key(w.Cell, w.Value)
	}
	released := row.stored
	if released == taken && !row.expires { // the entry stays as it is, as in indexChanges
		released, taken = "", ""
	}
	own.change(row.released, func(e *ownEntry) { e.releases-- })
	own.change(row.taken, func(e *ownEntry) { e.takers = slices.DeleteFunc(e.takers, func(r *ownRow) bool { return r == row }) })
	row.released, row.taken = released, taken
	own.change(row.released, func(e *ownEntry) { e.releases++ })
	own.change(row.taken, func(e *ownEntry) { e.takers = append(e.takers, row) })
	return nil
}

// change has f change which writes make and remove the entry with a key, and so what becomes of it.
func (own *ownIndex) change(key string, f func(*ownEntry)) {
	if key == "" {
		return
	}
	e := own.entries[key]
	if e == nil {
		own.bytes += len(key)
		e = &ownEntry{write: Write{Cell: model.Cell{Table: own.table, Row: key, Column: catalog.IndexColumn}}}
		own.entries[key] = e
		own.sorted.Insert(&e.write)
	}
	f(e)
	if delete(own.clashes, key); len(e.takers) > 1 {
		own.clashes[key] = e
	}
	switch {
	case len(e.takers) > 0:
		e.write.Kind, e.write.Value = layout.KindPut, []byte(e.takers[0].cell.Row)
	case e.releases > 0:
		e.write.Kind, e.write.Value = layout.KindDelete, nil
	default:
		own.bytes -= len(key)
		delete(own.entries, key)
		own.sorted.Delete(&e.write)
	}
}

// clash is the ErrUnique of the first cell, in the order of the transaction, with a value that one
// before it has.
func (own *ownIndex) clash() error {
	var first, second *ownRow
	for _, e := range own.clashes {
		takers := slices.SortedFunc(slices.Values(e.takers), func(a, b *ownRow) int { return cmp.Compare(a.place, b.place) })
		if second == nil || takers[1].place < second.place {
			first, second = takers[0], takers[1]
		}
	}
	if second == nil {
		return nil
	}
	return sameValue(own.ix, second.cell, first.cell.Row)
}
