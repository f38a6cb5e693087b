package transfer

import (
	"context"
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Bounds of one request of a restore or an import, besides its first row.
const (
	writtenRows  = 512
	writtenBytes = 4 << 20
	writtenCells = 5_000 // of a row in one mutation: two changes each, and more for its observers

	// writtenChanges ends a mutation of a row with its cell, which has some hundred changes at most:
	// Bigtable takes 100,000.
	writtenChanges = 20_000
)

// WriteRows writes rows of an export into table, with the entries of its indexes. Writing a row
// again does no harm. A row may come in parts, but a cell must not. Memory: the rows and one
// request.
//
// Errors: ErrInvalidArgument, ErrTooLarge and ErrSchemaMismatch for what no export of this schema
// contains; those of the store, after which some of the rows may have been written.
func (r *Restore) WriteRows(ctx context.Context, table string, rows []model.ExportedRow) error {
	info, ok := r.e.Meta.Catalog.Load().UserTable(table)
	if !ok {
		return r.e.Meta.Catalog.Load().UnknownTable(table)
	}
	w := &writer{store: r.e.Store, stamps: stamps{r.cell.Start, r.cell.Commit, r.cell.AckStart, r.cell.AckCommit},
		skips: func(table string, ix model.Index) bool { return r.building[catalog.IndexTable(table, ix)] },
		before: func(ctx context.Context, _ []model.JournalName) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeout(ctx, r.e.Store.Timing.RequestLifetime) // before the check
			return ctx, cancel, r.inForce(ctx)
		}}
	for i := range rows {
		for j := range rows[i].Cells {
			e := &rows[i].Cells[j]
			if err := validateExported(info, model.Cell{Table: info.Name, Row: rows[i].Row, Column: e.Column}, e); err != nil {
				return err
			}
		}
	}
	return w.write(ctx, info, rows)
}

// stamps are the timestamps of all that a restore or an import writes.
type stamps struct{ start, commit, ackStart, ackCommit tso.Timestamp }

// writer writes whole cells, with all that belongs to them, in bulk and without locks: for those
// who have the tables for themselves, and timestamps that are theirs alone. It is for one call.
type writer struct {
	store  *store.Store
	stamps stamps
	// skips reports whether an index gets no entries.
	skips func(table string, ix model.Index) bool
	// before is asked right before a request, in which notified rows get notifications. The context
	// that it returns bounds the request, by a lifetime that began before the fence was looked at.
	before func(ctx context.Context, notified []model.JournalName) (context.Context, context.CancelFunc, error)

	tables  map[string]*writtenBatch
	records map[tso.Timestamp][]byte // of values, by when these expire
}

// writtenBatch is the request that is being filled for one Bigtable table.
type writtenBatch struct {
	rows     []string
	muts     []*store.Mutation
	bytes    int
	notified []model.JournalName
}

// write writes valid rows.
func (w *writer) write(ctx context.Context, info *catalog.TableInfo, rows []model.ExportedRow) error {
	w.tables, w.records = map[string]*writtenBatch{}, map[tso.Timestamp][]byte{}
	for _, row := range rows {
		for cells := row.Cells; len(cells) > 0; {
			n := min(len(cells), writtenCells)
			if err := w.row(ctx, info, row.Row, cells[:n]); err != nil {
				return err
			}
			cells = cells[n:]
		}
	}
	for table := range w.tables {
		if err := w.send(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// row adds cells of a row, in one mutation as far as they are not too large.
func (w *writer) row(ctx context.Context, info *catalog.TableInfo, row string, cells []model.ExportedCell) error {
	mut, size, notified := store.NewMutation(2*len(cells)), 0, model.JournalName{Table: info.Name, Key: row}
	for i := range cells {
		e := &cells[i]
		cell := model.Cell{Table: info.Name, Row: row, Column: e.Column}
		if size > 0 && size+len(e.Value) > writtenBytes || len(mut.Changes()) >= writtenChanges {
			if err := w.add(ctx, row, mut, size, notified); err != nil {
				return err
			}
			mut, size = store.NewMutation(2), 0
			notified.Weak = false
		}
		life := layout.Lifetime{For: info.TTLOf(cell.Column)} // which begins anew
		w.cell(mut, cell, e, life)
		// Only this entry leads there (J2, J11).
		notified.Weak = notified.Weak || e.Notified || life.For > 0
		size += len(row) + len(e.Column) + len(e.Value)
		if e.Kind != model.ExportedPut {
			continue
		}
		if err := w.entries(ctx, info, cell, e.Value); err != nil {
			return err
		}
	}
	return w.add(ctx, row, mut, size, notified)
}

// cell writes one cell with all that belongs to it. An acknowledgment must not be there without its
// cell, or a collector would remove it.
func (w *writer) cell(mut *store.Mutation, cell model.Cell, e *model.ExportedCell, life layout.Lifetime) {
	at := w.stamps
	switch e.Kind {
	case model.ExportedPut:
		mut.Put(layout.DataFamily, cell.Column, at.start, e.Value)
		mut.Put(layout.WriteFamily, cell.Column, at.commit, w.put(life.ExpiresAt(at.commit)))
	case model.ExportedDelete:
		mut.Put(layout.WriteFamily, cell.Column, at.commit, layout.EncodeWrite(at.start, layout.KindDelete))
	}
	for _, observer := range e.Acknowledged {
		mut.Put(layout.WriteFamily, layout.AckColumn(cell.Column, observer), at.ackCommit, layout.EncodeWrite(at.ackStart, layout.KindLock))
	}
	if !e.Notified {
		return
	}
	mut.Put(layout.NotifyFamily, cell.Column, at.commit, nil)
	for _, s := range e.Parked {
		s.Cell, s.Through, s.Done = cell, at.commit, false
		mut.Put(layout.NotifyFamily, layout.StateColumn(s), at.commit, layout.EncodeObserverState(s))
	}
}

// put is the record of a value. Those of one lifetime are the same.
func (w *writer) put(expires tso.Timestamp) []byte {
	record := w.records[expires]
	if record == nil {
		record = layout.EncodePut(w.stamps.start, expires)
		w.records[expires] = record
	}
	return record
}

// entries writes the index entries of a value.
func (w *writer) entries(ctx context.Context, info *catalog.TableInfo, cell model.Cell, value []byte) error {
	for _, ix := range info.IndexesOf[cell.Column] {
		if w.skips(info.Name, ix) {
			continue
		}
		if err := catalog.CheckIndexEntry(ix, cell, value); err != nil {
			return err
		}
		entry := catalog.IndexEntryCell(ix, cell.Table, string(value), cell.Row)
		mut := store.NewMutation(2)
		life := layout.Lifetime{For: info.TTLOf(cell.Column)}
		w.cell(mut, entry, &model.ExportedCell{Column: entry.Column, Kind: model.ExportedPut, Value: []byte(cell.Row)}, life)
		if err := w.add(ctx, entry.Row, mut, len(entry.Row)+len(cell.Row), model.JournalName{Table: entry.Table, Key: entry.Row, Weak: life.For > 0}); err != nil {
			return err
		}
	}
	return nil
}

// add puts a mutation into the request of its table, which is sent first when that would make it
// too large.
func (w *writer) add(ctx context.Context, row string, mut *store.Mutation, size int, notified model.JournalName) error {
	table := notified.Table
	t := w.tables[table]
	if t == nil {
		t = new(writtenBatch)
		w.tables[table] = t
	}
	if len(t.rows) > 0 && (len(t.rows) == writtenRows || t.bytes+size > writtenBytes) {
		if err := w.send(ctx, table); err != nil {
			return err
		}
		t = w.tables[table]
	}
	t.rows, t.muts, t.bytes = append(t.rows, row), append(t.muts, mut), t.bytes+size
	if notified.Weak {
		t.notified = append(t.notified, notified)
	}
	return nil
}

func (w *writer) send(ctx context.Context, table string) error {
	t := w.tables[table]
	w.tables[table] = new(writtenBatch)
	if len(t.rows) == 0 {
		return nil
	}
	ctx, cancel, err := w.before(ctx, t.notified)
	defer cancel()
	if err != nil {
		return err
	}
	errs, err := w.store.MutateRows(store.InBackground(ctx), table, t.rows, t.muts)
	for _, rowErr := range errs {
		if err == nil {
			err = rowErr
		}
	}
	return err
}

// validateExported refuses what no export contains: an export comes from a file.
func validateExported(info *catalog.TableInfo, cell model.Cell, e *model.ExportedCell) error {
	if err := catalog.ValidateRow(cell); err != nil {
		return err
	}
	if err := catalog.ValidateColumn(cell); err != nil {
		return err
	}
	observed, weak := info.IsObserved[cell.Column], info.IsWeak[cell.Column]
	switch {
	case len(e.Value) > model.MaxValueBytes:
		return catalog.CellError(model.ErrTooLarge, cell, "the value has %d bytes, the limit is %d", len(e.Value), model.MaxValueBytes)
	case e.Kind == model.ExportedPut && weak, e.Kind == model.ExportedDelete && !observed, e.Kind == model.ExportedWeak && !weak,
		e.Kind < model.ExportedPut, e.Kind > model.ExportedWeak:
		return catalog.CellError(model.ErrSchemaMismatch, cell, "an exported cell of kind %d that the column cannot have", e.Kind)
	case (e.Notified || len(e.Acknowledged) > 0) && !observed && !weak:
		return catalog.CellError(model.ErrSchemaMismatch, cell, "a notification on a column that is neither observed nor weak")
	}
	names := append([]string(nil), e.Acknowledged...)
	for _, s := range e.Parked {
		names = append(names, s.Observer)
	}
	for _, name := range names {
		if name == "" || strings.Contains(name, "\x00") {
			return fmt.Errorf("percolator: %w: an observer's name that is empty or contains the byte 0x00", model.ErrInvalidArgument)
		}
	}
	return nil
}
