package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/gc"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// DropOptions configures DropFromSchema. The zero value is useful.
type DropOptions struct {
	// ClientOptions are those of the connection that deletes tables of Bigtable. nil: none.
	ClientOptions []option.ClientOption
	// DeleteTable deletes the Bigtable table of that name if it exists. Set it where another
	// identity has the permission bigtable.tables.delete. nil: DropFromSchema deletes tables
	// itself, through a connection with ClientOptions.
	DeleteTable func(ctx context.Context, name string) error
	// RowsPerSecond bounds how fast rows are read in which locks may have to be resolved. 0: 5,000.
	// Cells of columns are deleted as DeleteRange does by default.
	RowsPerSecond int
	// Progress, if set, is called at the beginning of each phase. It must not block.
	Progress func(DropPhase)

	// Wait waits for a drain of the given length. nil: by the clock.
	Wait func(context.Context, time.Duration) error
}

// DropPhase is a step of a drop.
type DropPhase string

// The phases of a drop, in order.
const (
	DropClose   DropPhase = "close"   // of indexes only: until no client reads it
	DropDrain   DropPhase = "drain"   // until no client writes to what is being dropped
	DropResolve DropPhase = "resolve" // the locks in other tables whose primary is there
	DropColumns DropPhase = "columns" // the cells of declared columns
	DropDelete  DropPhase = "delete"  // the tables of Bigtable
)

// DropFromSchema compares s with the stored schema of the same name. It deletes the tables, indexes
// and declared columns that s lacks, with everything in them, for good; columns that s does not
// list as observed or weak stop notifying. It adds nothing: CreateSchema does. It returns the names
// of the Bigtable tables that it has deleted, and, as TABLE:COLUMN, the columns whose cells it has
// deleted. If there is nothing to drop it returns at once.
//
// A column is dropped by its own name, from a table that goes on declaring others, and its cells
// are deleted in transactions: earlier snapshots show them. A column that was observed or weak
// keeps its cells, and stops notifying everywhere within Timing.MetaMaxAge. Collection by the
// journal removes its pending notifications; without a journal they stay, without effect. A worker
// with an observer for the column logs an error, drops what it has queued for it, and goes on with
// its other columns.
//
// Running clients learn of the drop within Timing.MetaMaxAge. From then on calls that name the
// table fail with ErrSchemaMismatch, and so do commits in flight: each commits in all its tables or
// in none. Snapshots from before the drop show other tables as before, and nothing of this one; a
// scan that has started ends with ErrSchemaMismatch. A table or an index of the same name can be
// created when the safepoint has passed the drop.
//
// It first waits until no client writes to the table any more (80 s by default, twice as long for
// an index), then resolves the locks in other tables that depend on it: by the journal, or, without
// one, by a pass over all tables. Each step is stored. After a crash, or when ctx has ended, the
// next call goes on, in this or another process; concurrent calls do no harm.
//
// It needs the right to delete tables. Errors: ErrSchemaMismatch for other differences that
// CreateSchema refuses; ErrHeld while there are holds, which keep snapshots of what would go;
// ErrImporting; ErrTooLarge where the instance remembers too many names of dropped tables
// (docs/LIMITS.md); ErrCorrupt for a lock or a row of the journal that cannot be understood;
// ErrInvalidArgument; those of the store and the oracle.
func (a *Admin) DropFromSchema(ctx context.Context, s *percolator.Schema, opts DropOptions) (deleted []string, err error) {
	ctx = store.InBackground(ctx)
	opts.RowsPerSecond = cmp.Or(opts.RowsPerSecond, 5000)
	if opts.Wait == nil {
		opts.Wait = retry.Sleep
	}
	if opts.Progress == nil {
		opts.Progress = func(DropPhase) {}
	}
	err = retry.CheckContext(ctx)
	if err == nil && opts.RowsPerSecond < 0 {
		err = fmt.Errorf("percolator: %w: DropOptions: RowsPerSecond is negative", model.ErrInvalidArgument)
	}
	if err == nil {
		err = catalog.Validate(s)
	}
	if err != nil {
		return nil, err
	}
	open, end := a.e.WhileOpen(ctx)
	defer end()
	deleted, err = a.drop(open, s, opts)
	return deleted, a.e.OrClosed(ctx, err)
}

func (a *Admin) drop(ctx context.Context, s *percolator.Schema, opts DropOptions) (deleted []string, err error) {
	now, err := nextTimestamp(ctx, a.e)
	if err != nil {
		return nil, err
	}
	m, err := a.e.Meta.Refresh(ctx)
	if err == nil && m.Fence != nil {
		err = m.Fence.Refusal()
	}
	if err != nil {
		return nil, err
	}
	dropping, err := a.beginDrop(ctx, s, now, opts)
	if err != nil {
		return nil, err
	}
	// This client has read a schema without what is dropped, so the drain begins when that was
	// stored, or later. What another call begins to drop meanwhile has a drain of its own.
	m, _ = a.e.Meta.Snapshot()
	columns := m.DroppedColumns()
	if len(dropping)+len(columns) > 0 {
		opts.Progress(DropDrain)
		if err := opts.Wait(ctx, catalog.DrainTime(a.e.Store.Timing)); err != nil {
			return nil, err
		}
	}
	if len(dropping) > 0 {
		if err := a.endDrop(ctx, dropping, opts); err != nil {
			return nil, err
		}
	}
	if deleted, err = a.deleteColumns(ctx, columns, opts); err != nil {
		return nil, err
	}
	if m, _ := a.e.Meta.Snapshot(); len(m.Stored().Dropping) == 0 {
		return deleted, nil
	}
	tables, err := a.deleteDropped(ctx, opts)
	return append(tables, deleted...), err
}

// beginDrop takes what s lacks away from programs. A writer that maintains an index no more must
// find no readers of it, so an index that a backfill has opened meanwhile is closed again.
func (a *Admin) beginDrop(ctx context.Context, s *percolator.Schema, now tso.Timestamp, opts DropOptions) (dropping []string, err error) {
	for {
		closed, err := a.e.Meta.CloseIndexes(ctx, s, now)
		if err != nil {
			return nil, err
		}
		if len(closed) > 0 {
			opts.Progress(DropClose)
			if err := opts.Wait(ctx, catalog.DrainTime(a.e.Store.Timing)); err != nil {
				return nil, err
			}
		}
		dropping, ok, err := a.e.Meta.BeginDrop(ctx, s, now, closed)
		if ok || err != nil {
			return dropping, err
		}
	}
}

// deleteColumns deletes the cells of columns, which no client writes any more.
func (a *Admin) deleteColumns(ctx context.Context, columns []meta.DroppedColumn, opts DropOptions) (deleted []string, err error) {
	if len(columns) > 0 {
		opts.Progress(DropColumns)
	}
	for _, c := range columns {
		ours, err := a.deleteColumn(ctx, c)
		if err != nil {
			return nil, err
		}
		if ours {
			deleted = append(deleted, c.Table+":"+c.Column)
		}
	}
	return deleted, nil
}

// deleteColumn deletes the cells of a column that no client writes. false: another call has ended
// the drop, and the column may have come back. Values that it has then are younger than at.
func (a *Admin) deleteColumn(ctx context.Context, c meta.DroppedColumn) (ours bool, err error) {
	at, err := nextTimestamp(ctx, a.e)
	if err != nil {
		return false, err
	}
	m, err := a.e.Meta.Refresh(ctx)
	if err != nil || !slices.Contains(m.DroppedColumns(), c) {
		return false, err
	}
	// Without the table, its cells are gone, too.
	if _, known := a.e.Meta.Catalog.Load().UserTable(c.Table); known {
		for earlier := true; earlier; {
			p, err := a.deleteRange(ctx, c.Table, model.All(), at, DeleteOptions{Columns: []string{c.Column}})
			if err != nil {
				return false, err
			}
			earlier = p.Before < at // it ended one that had started before the drain, and lacks what came since
		}
	}
	return true, a.e.Meta.ForgetColumn(ctx, c)
}

// endDrop takes tables that no client writes to any more away from the engine.
func (a *Admin) endDrop(ctx context.Context, dropping []string, opts DropOptions) error {
	opts.Progress(DropResolve)
	at, err := nextTimestamp(ctx, a.e)
	if err != nil {
		return err
	}
	if err := gc.ResolveLocksOf(ctx, a.e, dropping, at, opts.RowsPerSecond); err != nil {
		return err
	}
	return a.e.Meta.EndDrop(ctx, dropping, at)
}

// deleteDropped deletes tables of Bigtable when no client looks for them any more.
func (a *Admin) deleteDropped(ctx context.Context, opts DropOptions) ([]string, error) {
	opts.Progress(DropDelete)
	if err := opts.Wait(ctx, a.e.Store.Timing.MetaMaxAge); err != nil {
		return nil, err
	}
	if opts.DeleteTable != nil {
		return a.e.Meta.DeleteDropped(ctx, opts.DeleteTable)
	}
	deleteTable, end, err := meta.TableDeleter(ctx, a.e.Config.Project, a.e.Config.Instance, opts.ClientOptions)
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	return a.e.Meta.DeleteDropped(ctx, deleteTable)
}
