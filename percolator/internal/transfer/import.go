package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// An import writes rows into one empty table while the others are in use (I28). Like a restore it
// looks as if one large transaction had written everything, with one start and one commit timestamp
// that are taken once and stored, so every request can be repeated by any process:
//
//	begin    a fence of this table in the meta row, a drain, a look whether the table is empty, and
//	         the timestamps start < commit
//	load     a mutation for each row: values at start, records at commit, and notifications where
//	         the column is observed; entries of indexes in the same way
//	         of a source in use, a process that goes on takes over: importtakeover.go
//	verify   a pass over what is stored, compared with what was read from the source
//	lift     one timestamp since > commit: it takes the place of the fence
//
// A snapshot below since is refused, one from since on sees everything. That replaces the safepoint
// of a restore, which would concern every table.
//
// Nothing that is written can be taken for garbage meanwhile: each record comes in one mutation
// with its value, and is the first of its cell. So the timestamps may lie below the safepoint when
// an import takes longer than the retention.
//
// A notification is announced in the journal before it is written (J2), at the commit timestamp of
// the import although that is older than the announcement: no run can have erased what comes at it,
// since until the fence goes a run that reads the table is refused.
//
// Rejected: to import into a table that holds rows. What is there might be locked by a transaction
// whose primary is elsewhere, and versions would have to be compared with the source. Rejected too:
// a commit timestamp that is taken at the end. Every row would be written twice.

// Import is a running import. Its methods may be called concurrently, once TakeOver has
// returned.
type Import struct {
	e     *engine.Engine
	info  *catalog.TableInfo
	table string
	cell  meta.Import

	// Of TakeOver:
	drained bool        // others are shut out
	erased  atomic.Bool // requests may be in flight that erase
	alone   bool        // no other process writes, or has written what this one does not know of
}

// MaxImportID is how long the name of a source may be, in bytes.
const MaxImportID = 1 << 10

// MaxImportTTLs is how many different times to live a table may have into which an import begins:
// the position of the import holds the sums of each (ImportSums).
const MaxImportTTLs = 64

// BeginImport fences a table, or takes up an interrupted import of the same source, which id names.
// The table has to be empty (ErrNotEmpty, which leaves it as it was). It waits until every client
// must know of the fence and nothing that one has started before is in flight, and tells waiting,
// if that is not nil, for how long. quiet: observers are not notified. probe, if not nil, is called
// before a fence is stored, possibly again, with what is Import.Check; its error leaves the table
// as it was.
//
// Errors: ErrImporting if an import of another source is unfinished, or this one is being aborted;
// ErrRestoring, ErrRepairing; ErrSchemaMismatch for an unknown table; ErrTooLarge where the meta
// row has no room for one more import.
func BeginImport(ctx context.Context, e *engine.Engine, table, id string, quiet bool, waiting func(time.Duration), probe func(check func(model.ImportRow) error) error) (*Import, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	if id == "" || len(id) > MaxImportID {
		return nil, fmt.Errorf("percolator: %w: the name of an import's source has %d bytes, not 1 to %d", model.ErrInvalidArgument, len(id), MaxImportID)
	}
	first := false
	for range meta.MaxTries {
		m, err := e.Meta.Refresh(ctx)
		if err != nil {
			return nil, err
		}
		im := &Import{e: e, table: table, alone: first}
		info, known := e.Meta.Catalog.Load().UserTable(table)
		if im.info = info; !known {
			return nil, e.Meta.Catalog.Load().UnknownTable(table)
		}
		at := m.Imports[table]
		switch {
		case m.Fence != nil:
			return nil, m.Fence.Refusal()
		case at.Phase == "":
			err = im.fence(ctx, m, id, quiet, probe)
		case at.ID != id, at.Phase == meta.ImportAbort:
			return nil, at.Refusal(table)
		case at.Phase == meta.ImportLoad:
			im.cell = at
			return im, nil
		default:
			first, err = im.ready(ctx, at, waiting)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("percolator: table %q: %w: its fence was changed by others %d times", table, model.ErrConflict, meta.MaxTries)
}

// fence stores the fence. It checks the table and the source first, so that a fence for the wrong
// one disturbs no client.
func (im *Import) fence(ctx context.Context, m meta.State, id string, quiet bool, probe func(func(model.ImportRow) error) error) error {
	var old *meta.Import
	former, there := m.Imports[im.table]
	if there {
		old = &former
	}
	erased := m.StillErased(former)
	if len(erased) >= meta.MaxErasedImports {
		return fmt.Errorf("percolator: table %q: %w: %d imports into it were aborted since the safepoint; wait until that is above them (percolator gc status)", im.table, model.ErrTooLarge, len(erased))
	}
	if n := im.info.DistinctTTLs(); n > MaxImportTTLs {
		return fmt.Errorf("percolator: table %q: %w: its values live for %d different times, and an import counts those of at most %d apart", im.table, model.ErrTooLarge, n, MaxImportTTLs)
	}
	if err := im.checkEmpty(ctx); err != nil {
		return err
	}
	if probe != nil {
		if err := probe(im.Check); err != nil {
			return err
		}
	}
	if err := im.e.Meta.RoomForImport(ctx, m, im.table); err != nil {
		return err
	}
	next := meta.Import{ID: id, Phase: meta.ImportDrain, Started: time.Now(), Quiet: quiet, Since: former.Since, Erased: erased}
	_, err := im.e.Meta.ReplaceImport(ctx, im.table, old, &next)
	return err
}

// ready waits until the fence is in force, looks again whether the table is empty, and takes the
// timestamps. It reports whether no other process has done that.
//
// It also decides once which indexes the import writes, by a schema that is read after the drain.
// Until the fence goes no index of the table becomes ready (Watcher.IndexReady), and those that are
// added are building. So for each index either the import writes the entries, or a backfill that
// reads the table after the import.
func (im *Import) ready(ctx context.Context, at meta.Import, waiting func(time.Duration)) (first bool, err error) {
	drain := catalog.DrainTime(im.e.Store.Timing)
	if waiting != nil {
		waiting(drain)
	}
	if err := retry.Sleep(ctx, drain); err != nil {
		return false, err
	}
	m, err := im.e.Meta.Refresh(ctx)
	if err != nil {
		return false, err
	}
	info, known := im.e.Meta.Catalog.Load().UserTable(im.table)
	if im.info = info; !known {
		err = im.e.Meta.Catalog.Load().UnknownTable(im.table)
	} else {
		err = im.checkEmpty(ctx)
	}
	if err != nil {
		if !known || errors.Is(err, model.ErrNotEmpty) { // a table that is dropped would keep its fence
			_, lerr := im.e.Meta.ReplaceImport(ctx, im.table, &at, at.Withdrawn())
			err = errors.Join(err, lerr)
		}
		return false, err
	}
	next := at
	next.Phase = meta.ImportLoad
	for _, ix := range im.info.Indexes {
		// Otherwise the backfill writes all entries.
		if !m.Indexes[catalog.IndexTable(im.table, ix)].Building {
			next.Indexes = append(next.Indexes, ix.Name)
		}
	}
	// Within a lifetime (I14): copies that can be repaired to a timestamp above these begin a drain
	// after it, and then hold this fence, or nothing that is written.
	taking, cancel := context.WithTimeout(ctx, im.e.Store.Timing.RequestLifetime)
	defer cancel()
	if next.Start, err = im.e.Clock.Next(taking); err == nil {
		next.Commit, err = im.e.Clock.Next(taking)
	}
	if err == nil {
		first, err = im.e.Meta.ReplaceImport(taking, im.table, &at, &next)
	}
	if err != nil && next.Start != 0 && taking.Err() != nil && ctx.Err() == nil {
		return false, nil // this process was held up: look at the fence again
	}
	return first, err
}

// checkEmpty names the first table, its own or that of an index, in which anything is stored.
func (im *Import) checkEmpty(ctx context.Context) error {
	for _, name := range catalog.BigtableNames(im.info.Table) {
		switch found, err := im.e.Store.HasRows(ctx, name, store.Anything()); {
		case err != nil:
			return err
		case found:
			return fmt.Errorf("percolator: table %q: %w; an import needs an empty one: import into another table now; or delete the rows (percolator del-range %s --all), and import again once the retention has passed since (an hour, unless the workers have another one) and a collection after it has removed them (percolator gc run), if no observer has work left there", name, model.ErrNotEmpty, im.table)
		}
	}
	return nil
}

// CommitTimestamp is that of everything the import writes. It tells one import from another.
func (im *Import) CommitTimestamp() tso.Timestamp { return im.cell.Commit }

// inForce refuses to write once another process has finished or aborted the import, or has taken it
// over. What it knows is at most Timing.MetaMaxAge old, and what is sent ends within a lifetime: so
// nothing arrives later than a drain after the fence has changed.
func (im *Import) inForce(ctx context.Context) error {
	m, err := im.e.Meta.Known(ctx)
	if err != nil {
		return err
	}
	return im.same(m)
}

// same returns the fence if it is still that of this import; ErrConflict if not.
func (im *Import) same(m meta.State) error {
	switch at := m.Imports[im.table]; {
	case m.Fence != nil:
		return m.Fence.Refusal()
	case at.Phase == meta.ImportAbort:
		return at.Refusal(im.table)
	case at.Phase != meta.ImportLoad || at.Commit != im.cell.Commit:
		return fmt.Errorf("percolator: table %q: %w: another process has finished or aborted the import of %s", im.table, model.ErrConflict, im.cell.ID)
	case at.Takeovers != im.cell.Takeovers:
		return fmt.Errorf("percolator: table %q: %w: another process goes on with the import of %s", im.table, model.ErrConflict, im.cell.ID)
	}
	return nil
}

// Check refuses a row that a transaction could not write either: ErrInvalidArgument, ErrTooLarge.
// The message names the row and the column.
func (im *Import) Check(row model.ImportRow) error {
	cell := model.Cell{Table: im.table, Row: row.Row}
	if err := catalog.ValidateRow(cell); err != nil {
		return err
	}
	for _, c := range row.Cells {
		if cell.Column = c.Column; im.info.IsWeak[c.Column] {
			return catalog.CellError(model.ErrInvalidArgument, cell, "a weak column can only be notified, never written")
		}
		if err := im.info.CheckColumn(cell); err != nil {
			return err
		}
		if len(c.Value) > model.MaxValueBytes {
			return catalog.CellError(model.ErrTooLarge, cell, "the value has %d bytes, the limit is %d", len(c.Value), model.MaxValueBytes)
		}
		if err := im.info.CheckPut(cell, c.Value); err != nil {
			return err
		}
	}
	return nil
}

// WriteRows writes rows that passed Check, with the entries of indexes and, unless the import is
// quiet, the notifications of observed columns. Writing a row again does no harm. Memory: the rows,
// and one request for the table and for each index.
//
// Errors: ErrConflict and ErrImporting once the import has been finished or is being aborted; those
// of the store, after which some of the rows may have been written.
func (im *Import) WriteRows(ctx context.Context, rows []model.ImportRow) error {
	n := 0
	for _, row := range rows {
		n += len(row.Cells)
	}
	out, cells := make([]model.ExportedRow, len(rows)), make([]model.ExportedCell, 0, n)
	for i, row := range rows {
		first := len(cells)
		for _, c := range row.Cells {
			cells = append(cells, model.ExportedCell{Column: c.Column, Kind: model.ExportedPut, Value: c.Value, Notified: !im.cell.Quiet && im.info.IsObserved[c.Column]})
		}
		out[i] = model.ExportedRow{Row: row.Row, Cells: cells[first:len(cells):len(cells)]}
	}
	w := &writer{store: im.e.Store, stamps: stamps{start: im.cell.Start, commit: im.cell.Commit}, skips: im.skips, before: im.before}
	return w.write(ctx, im.info, out)
}

func (im *Import) skips(_ string, ix model.Index) bool {
	return !slices.Contains(im.cell.Indexes, ix.Name)
}

// before announces the notifications of a request (J2), and looks at the fence.
func (im *Import) before(ctx context.Context, notified []model.JournalName) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, im.e.Store.Timing.RequestLifetime) // before what is to be checked
	if len(notified) > 0 {
		if _, err := im.e.Commits.Announce(ctx, notified); err != nil {
			return ctx, cancel, err
		}
	}
	return ctx, cancel, im.inForce(ctx)
}

// Lift ends the import: from the timestamp that it returns on, snapshots read the table. Running
// clients notice within Timing.MetaMaxAge. Call it when Verify has found everything. ErrConflict:
// the fence is no longer this import's.
func (im *Import) Lift(ctx context.Context) (since tso.Timestamp, err error) {
	m, err := im.e.Meta.Refresh(ctx)
	if err == nil {
		err = im.same(m)
	}
	if err != nil {
		return 0, err
	}
	if since, err = im.e.Clock.Next(ctx); err != nil { // after everything was acknowledged (I1)
		return 0, err
	}
	at := m.Imports[im.table]
	if _, err = im.e.Meta.ReplaceImport(ctx, im.table, &at, at.Lifted(since)); err != nil {
		return 0, err
	}
	if m, err = im.e.Meta.Refresh(ctx); err != nil {
		return 0, err
	}
	switch now := m.Imports[im.table]; {
	case now.Phase == "" && now.Commit == im.cell.Commit: // by whomever
		return now.Since, nil
	default:
		return 0, fmt.Errorf("percolator: table %q: %w: another process has changed its fence; look again", im.table, model.ErrConflict)
	}
}

// eachPart calls f with parts of a table that together are all of it, several at once.
func (im *Import) eachPart(ctx context.Context, table string, f func(ctx context.Context, part model.Range) error) error {
	keys, err := im.e.Store.SampleKeys(ctx, table)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(importPasses)
	for _, part := range partsOf(keys, importParts) {
		g.Go(func() error { return f(ctx, part) })
	}
	return g.Wait()
}

// How a table is read: so many parts at once, of so many at most. The last parts to end leave few
// passes without work, and what a part ends with, a page that is not full, is rare.
const (
	importPasses = 8
	importParts  = 8 * importPasses
)

// partsOf cuts a table at some of the keys, in order, into parts that have about as many of them.
func partsOf(keys []string, most int) (parts []model.Range) {
	keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool { return k == "" })
	n, start := min(most, len(keys)+1), ""
	for i := 1; i < n; i++ {
		end := keys[i*(len(keys)+1)/n-1]
		parts = append(parts, model.Range{Start: start, End: end})
		start = end
	}
	return append(parts, model.Range{Start: start})
}
