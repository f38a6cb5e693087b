package transfer

import (
	"context"
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
)

// Bounds of one request of a restore, besides its first row.
const (
	restoreRows  = 512
	restoreBytes = 4 << 20
	restoreCells = 5_000 // of one row in one mutation, which Bigtable limits to 100,000 changes: two for each cell, and one for each observer
)

// WriteRows writes rows of an export into table, with the entries of its indexes. Writing a row
// again does no harm. A row may come in parts, but a cell must not. Memory: the rows and one
// request.
//
// Errors: ErrInvalidArgument, ErrTooLarge and ErrSchemaMismatch for what no export of this schema
// contains; those of the store, after which some of the rows may have been written.
func (r *Restore) WriteRows(ctx context.Context, table string, rows []ExportedRow) error {
	info, ok := r.e.Meta.Catalog.Load().UserTable(table)
	if !ok {
		return model.UnknownTable(table)
	}
	out := &restoreBatches{r: r, tables: map[string]*restoreBatch{}}
	for _, row := range rows {
		for cells := row.Cells; len(cells) > 0; {
			n := min(len(cells), restoreCells)
			if err := out.row(ctx, info, row.Row, cells[:n]); err != nil {
				return err
			}
			cells = cells[n:]
		}
	}
	return out.flush(ctx)
}

// restoreBatch is the request that is being filled for one Bigtable table.
type restoreBatch struct {
	rows  []string
	muts  []*store.Mutation
	bytes int
}

type restoreBatches struct {
	r      *Restore
	tables map[string]*restoreBatch
}

// row adds cells of a row, in one mutation as far as they are not too large.
func (b *restoreBatches) row(ctx context.Context, info *model.TableInfo, row string, cells []ExportedCell) error {
	mut, size := store.NewMutation(2), 0
	for i := range cells {
		e := &cells[i]
		cell := model.Cell{Table: info.Name, Row: row, Column: e.Column}
		if err := validateExported(info, cell, e); err != nil {
			return err
		}
		if size > 0 && size+len(e.Value) > restoreBytes {
			if err := b.add(ctx, info.Name, row, mut, size); err != nil {
				return err
			}
			mut, size = store.NewMutation(2), 0
		}
		life := layout.Lifetime{For: info.TTLOf(cell.Column)} // which begins anew
		b.r.cellMutation(mut, cell, e, life)
		size += len(row) + len(e.Column) + len(e.Value)
		if e.Kind != ExportedPut {
			continue
		}
		if err := b.entries(ctx, info, cell, e.Value); err != nil {
			return err
		}
	}
	return b.add(ctx, info.Name, row, mut, size)
}

// cellMutation writes one cell with all that belongs to it. An acknowledgment must not be there
// without its cell, or a collector would remove it.
func (r *Restore) cellMutation(mut *store.Mutation, cell model.Cell, e *ExportedCell, life layout.Lifetime) {
	switch e.Kind {
	case ExportedPut:
		mut.Put(layout.DataFamily, cell.Column, r.cell.Start, e.Value)
		mut.Put(layout.WriteFamily, cell.Column, r.cell.Commit, layout.EncodePut(r.cell.Start, life.ExpiresAt(r.cell.Commit)))
	case ExportedDelete:
		mut.Put(layout.WriteFamily, cell.Column, r.cell.Commit, layout.EncodeWrite(r.cell.Start, layout.KindDelete))
	}
	for _, observer := range e.Acknowledged {
		mut.Put(layout.WriteFamily, layout.AckColumn(cell.Column, observer), r.cell.AckCommit, layout.EncodeWrite(r.cell.AckStart, layout.KindLock))
	}
	if !e.Notified {
		return
	}
	mut.Put(layout.NotifyFamily, cell.Column, r.cell.Commit, nil)
	for _, s := range e.Parked {
		s.Cell, s.Through, s.Done = cell, r.cell.Commit, false
		mut.Put(layout.NotifyFamily, layout.StateColumn(s), r.cell.Commit, layout.EncodeObserverState(s))
	}
}

// entries writes the index entries of a value.
func (b *restoreBatches) entries(ctx context.Context, info *model.TableInfo, cell model.Cell, value []byte) error {
	for _, ix := range info.IndexesOf[cell.Column] {
		if b.r.building[model.IndexTable(info.Name, ix)] {
			continue
		}
		if err := model.CheckIndexEntry(ix, cell, value); err != nil {
			return err
		}
		entry := model.IndexEntryCell(ix, cell.Table, string(value), cell.Row)
		mut := store.NewMutation(2)
		b.r.cellMutation(mut, entry, &ExportedCell{Column: entry.Column, Kind: ExportedPut, Value: []byte(cell.Row)}, layout.Lifetime{For: info.TTLOf(cell.Column)})
		if err := b.add(ctx, entry.Table, entry.Row, mut, len(entry.Row)+len(cell.Row)); err != nil {
			return err
		}
	}
	return nil
}

// add puts a mutation into the request of its table, which is sent first when that would make it
// too large.
func (b *restoreBatches) add(ctx context.Context, table, row string, mut *store.Mutation, size int) error {
	t := b.tables[table]
	if t == nil {
		t = new(restoreBatch)
		b.tables[table] = t
	}
	if len(t.rows) > 0 && (len(t.rows) == restoreRows || t.bytes+size > restoreBytes) {
		if err := b.send(ctx, table); err != nil {
			return err
		}
		t = b.tables[table]
	}
	t.rows, t.muts, t.bytes = append(t.rows, row), append(t.muts, mut), t.bytes+size
	return nil
}

func (b *restoreBatches) send(ctx context.Context, table string) error {
	t := b.tables[table]
	b.tables[table] = new(restoreBatch)
	if len(t.rows) == 0 {
		return nil
	}
	if err := b.r.inForce(ctx); err != nil {
		return err
	}
	errs, err := b.r.e.Store.MutateRows(store.InBackground(ctx), table, t.rows, t.muts)
	for _, rowErr := range errs {
		if err == nil {
			err = rowErr
		}
	}
	return err
}

func (b *restoreBatches) flush(ctx context.Context) error {
	for table := range b.tables {
		if err := b.send(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// validateExported refuses what no export contains: an export comes from a file.
func validateExported(info *model.TableInfo, cell model.Cell, e *ExportedCell) error {
	if err := model.ValidateRow(cell); err != nil {
		return err
	}
	if err := model.ValidateColumn(cell); err != nil {
		return err
	}
	observed, weak := info.IsObserved[cell.Column], info.IsWeak[cell.Column]
	switch {
	case len(e.Value) > model.MaxValueBytes:
		return model.CellError(model.ErrTooLarge, cell, "the value has %d bytes, the limit is %d", len(e.Value), model.MaxValueBytes)
	case e.Kind == ExportedPut && weak, e.Kind == ExportedDelete && !observed, e.Kind == ExportedWeak && !weak,
		e.Kind < ExportedPut, e.Kind > ExportedWeak:
		return model.CellError(model.ErrSchemaMismatch, cell, "an exported cell of kind %d that the column cannot have", e.Kind)
	case (e.Notified || len(e.Acknowledged) > 0) && !observed && !weak:
		return model.CellError(model.ErrSchemaMismatch, cell, "a notification on a column that is neither observed nor weak")
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
