package percolator

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/tso"
)

// An index is a table whose rows are the values of a column in order. Its entries are ordinary writes of the transaction that
// writes the column, so index and data can never disagree (the use that section 2.2 of the paper gives for transactions).
//
//	row of an entry: escaped value, 0x00 0x01, and the row of the indexed cell unless the index is unique
//	value of an entry: the row of the indexed cell
//
// A unique index leaves the row out of the key: two rows with one value write the same cell, and one of them conflicts.
//
// Whoever changes an indexed cell writes the entry of its former value, be there one or not: that is where a change meets a backfill
// that is about to write that entry (backfill.go).
const indexColumn = "row"

// escapeValue keeps order: 0x00 becomes 0x00 0xff, which is above the terminator 0x00 0x01.
func escapeValue(v string) string { return strings.ReplaceAll(v, "\x00", "\x00\xff") }

// entryCell is where the entry of a value lives.
func (ix Index) entryCell(table, value, row string) Cell {
	key := escapeValue(value) + "\x00\x01"
	if !ix.Unique {
		key += row
	}
	return Cell{ix.table(table), key, indexColumn}
}

// checkEntry refuses a value for which no row key can hold an entry.
func (ix Index) checkEntry(c Cell, value []byte) error {
	if len(ix.entryCell(c.Table, string(value), c.Row).Row) > MaxRowKeyBytes {
		return cellErr(ErrTooLarge, c, "the value makes an entry of index %q longer than %d bytes", ix.Name, MaxRowKeyBytes)
	}
	return nil
}

// valueOf recovers the indexed value from the key of an entry.
func valueOf(key string) (string, bool) {
	for i := 0; i+1 < len(key); i++ {
		if key[i] == 0 {
			if key[i+1] == 1 {
				return strings.ReplaceAll(key[:i], "\x00\xff", "\x00"), true
			}
			i++
		}
	}
	return "", false
}

// decodeEntry is the reverse of entryCell: the cell that an entry stands for, and its value. false: not an entry of this index.
func (ix Index) decodeEntry(table string, e Entry) (cell Cell, value string, ok bool) {
	value, ok = valueOf(e.Cell.Row)
	cell = Cell{table, string(e.Value), ix.Column}
	return cell, value, ok && validateRow(cell) == nil && ix.entryCell(table, value, cell.Row) == e.Cell
}

// indexChange is what one write does to one index.
type indexChange struct {
	ix       Index
	cell     Cell // the indexed cell
	old, new *string

	// careful: a unique index that may be incomplete in the snapshot. Two rows may hold one value, and the entry of it belongs
	// to at most one of them; foreign says that the entry of old belongs to another row than this one.
	careful, foreign bool
}

// withIndexes appends the index entries that the writes imply and checks unique indexes.
func (tx *Txn) withIndexes(ctx context.Context, writes []*write) ([]*write, error) {
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

// indexChanges reads the old values of indexed cells in the snapshot. Nobody can change them before the commit without a
// conflict, because the transaction writes them.
func (tx *Txn) indexChanges(ctx context.Context, writes []*write) ([]indexChange, error) {
	cat := tx.c.catalog.Load()
	var cells []Cell
	var indexed []*write
	for _, w := range writes {
		if info, ok := cat.user(w.cell.Table); ok && w.kind.changes() && len(info.indexes[w.cell.Column]) > 0 {
			cells, indexed = append(cells, w.cell), append(indexed, w)
		}
	}
	if len(cells) == 0 {
		return nil, nil
	}
	old, err := tx.snap.GetMulti(ctx, cells...)
	if err != nil {
		return nil, err
	}
	var changes []indexChange
	for i, w := range indexed {
		info, _ := cat.user(w.cell.Table)
		for _, ix := range info.indexes[w.cell.Column] {
			ch, err := tx.indexChange(ix, w, old[i])
			if err != nil {
				return nil, err
			}
			if ch.old == nil || ch.new == nil || *ch.old != *ch.new {
				changes = append(changes, ch)
			}
		}
	}
	return changes, nil
}

func (tx *Txn) indexChange(ix Index, w *write, old []byte) (indexChange, error) {
	ch := indexChange{ix: ix, cell: w.cell}
	ch.careful = ix.Unique && !tx.c.meta.indexState(ix, w.cell.Table).complete(tx.snap.ts)
	if old != nil && ix.checkEntry(w.cell, old) == nil { // a value that is older than the index may be too long for an entry
		s := string(old)
		ch.old = &s
	}
	if w.kind == kindPut {
		if err := ix.checkEntry(w.cell, w.value); err != nil { // it may have been buffered before the index was known
			return ch, err
		}
		s := string(w.value)
		ch.new = &s
	}
	return ch, nil
}

// findForeign looks at the entries that careful changes would release. Of two rows that share a value only one has the entry,
// and the other must not take it away.
func (tx *Txn) findForeign(ctx context.Context, changes []indexChange) error {
	var cells []Cell
	var of []*indexChange
	for i := range changes {
		if ch := &changes[i]; ch.careful && ch.old != nil {
			cells, of = append(cells, ch.ix.entryCell(ch.cell.Table, *ch.old, ch.cell.Row)), append(of, ch)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	found, err := tx.c.readCells(ctx, tx.snap.ts, cells, len(cells))
	if err != nil {
		return err
	}
	for i, r := range found {
		of[i].foreign = r.value != nil && string(r.value) != of[i].cell.Row
	}
	return nil
}

// indexEntries turns changes into writes: what is released first, so that a transaction may hand a unique value from one row
// to another.
func indexEntries(changes []indexChange) ([]*write, error) {
	byCell := map[Cell]*write{}
	var out []*write
	put := func(w *write) {
		if old := byCell[w.cell]; old != nil {
			*old = *w
			return
		}
		byCell[w.cell] = w
		out = append(out, w)
	}
	for _, ch := range changes {
		if ch.old == nil {
			continue
		}
		w := &write{cell: ch.ix.entryCell(ch.cell.Table, *ch.old, ch.cell.Row), kind: kindDelete, indexed: ch.cell}
		if ch.foreign { // conflict with whoever changes the entry, a backfill above all
			if w.kind = kindLock; byCell[w.cell] != nil {
				continue
			}
		}
		put(w)
	}
	for _, ch := range changes {
		if ch.new == nil {
			continue
		}
		cell := ch.ix.entryCell(ch.cell.Table, *ch.new, ch.cell.Row)
		if w := byCell[cell]; w != nil && w.kind == kindPut && string(w.value) != ch.cell.Row {
			return nil, cellErr(ErrUnique, ch.cell, "the transaction gives two rows the same value in index %q", ch.ix.Name)
		}
		put(&write{cell: cell, kind: kindPut, value: []byte(ch.cell.Row), indexed: ch.cell})
	}
	return out, nil
}

// checkUnique reads the entries that the transaction is about to take. One that it releases itself has been turned into a put
// by indexEntries and must not count as taken by somebody else.
func (tx *Txn) checkUnique(ctx context.Context, changes []indexChange) error {
	released := map[Cell]bool{}
	for _, ch := range changes {
		if ch.ix.Unique && ch.old != nil && !ch.foreign {
			released[ch.ix.entryCell(ch.cell.Table, *ch.old, ch.cell.Row)] = true
		}
	}
	var cells []Cell
	var of []indexChange
	for _, ch := range changes {
		if ch.ix.Unique && ch.new != nil {
			if cell := ch.ix.entryCell(ch.cell.Table, *ch.new, ch.cell.Row); !released[cell] {
				cells, of = append(cells, cell), append(of, ch)
			}
		}
	}
	if len(cells) == 0 {
		return nil
	}
	found, err := tx.c.readCells(ctx, tx.snap.ts, cells, len(cells))
	if err != nil {
		return err
	}
	for i, r := range found {
		if r.value == nil || string(r.value) == of[i].cell.Row {
			continue
		}
		if of[i].careful {
			if holds, err := tx.c.holdsValue(ctx, tx.snap.ts, Cell{of[i].cell.Table, string(r.value), of[i].cell.Column}, *of[i].new); err != nil || !holds {
				if err != nil {
					return err
				}
				continue // left behind by a client that did not know the index
			}
		}
		return cellErr(ErrUnique, of[i].cell, "another row holds this value in index %q", of[i].ix.Name)
	}
	return nil
}

// holdsValue looks whether an entry of a unique index tells the truth.
func (c *Client) holdsValue(ctx context.Context, ts tso.Timestamp, cell Cell, value string) (bool, error) {
	if validateRow(cell) != nil {
		return false, nil
	}
	found, err := c.readCells(ctx, ts, []Cell{cell}, 1)
	return err == nil && found[0].value != nil && string(found[0].value) == value, err
}

// ScanIndex streams the indexed cells whose value lies in values (half open), in the order of values, then rows. Entry.Cell is
// the indexed cell and Entry.Value its value. ErrSchemaMismatch if the table has no such index or it is still being built;
// ErrSnapshotTooOld if the snapshot is from before the index was complete.
func (s *Snapshot) ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error] {
	return s.c.scanIndex(ctx, s, table, index, values, nil)
}

// ScanIndex is the Snapshot's, with the transaction's own writes merged in.
func (tx *Txn) ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error] {
	own, err := tx.ownIn(table, All(), nil)
	if err = errors.Join(err, tx.mayRead(Cell{Table: table})); err != nil {
		return failed(err)
	}
	return tx.locking(tx.c.scanIndex(ctx, tx.snap, table, index, values, func(ix Index) ([]write, error) {
		return tx.ownEntries(ctx, ix, own)
	}))
}

// ownEntries lists, in order, the entries of one index that the transaction's writes would make or remove.
func (tx *Txn) ownEntries(ctx context.Context, ix Index, own []write) ([]write, error) {
	var writes []*write
	for i := range own {
		if own[i].cell.Column == ix.Column {
			writes = append(writes, &own[i])
		}
	}
	changes, err := tx.indexChanges(ctx, writes)
	if err != nil {
		return nil, err
	}
	changes = slices.DeleteFunc(changes, func(ch indexChange) bool { return ch.ix != ix })
	entries, err := indexEntries(changes)
	if err != nil {
		return nil, err
	}
	out := make([]write, len(entries))
	for i, e := range entries {
		out[i] = *e
	}
	slices.SortFunc(out, func(a, b write) int { return compareCells(a.cell, b.cell) })
	return out, nil
}

func (c *Client) scanIndex(ctx context.Context, s *Snapshot, table, index string, values Range, own func(Index) ([]write, error)) iter.Seq2[Entry, error] {
	if err := checkContext(ctx); err != nil {
		return failed(err)
	}
	ix, err := c.completeIndex(ctx, s.ts, table, index)
	if err != nil {
		return failed(err)
	}
	keys := Range{Start: escapeValue(values.Start), End: escapeValue(values.End)}
	stream := c.scan(ctx, s.ts, ix.table(table), keys, []string{indexColumn})
	if own != nil {
		mine, err := own(ix)
		if err != nil {
			return failed(err)
		}
		mine = slices.DeleteFunc(mine, func(w write) bool { return !keys.contains(w.cell.Row) })
		stream = mergeOwn(stream, mine)
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range stream {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			value, ok := valueOf(e.Cell.Row)
			if !ok {
				yield(Entry{}, cellErr(ErrCorrupt, e.Cell, "not an entry of index %q", index))
				return
			}
			if !yield(Entry{Cell: Cell{table, string(e.Value), ix.Column}, Value: []byte(value), CommitTS: e.CommitTS}, nil) {
				return
			}
		}
	}
}
