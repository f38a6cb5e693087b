package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A restore writes an export into empty tables: not by transactions, but as if one large one had
// written everything. All values have one start and one commit timestamp, all acknowledgments
// another pair above it:
//
//	data                       start
//	write, notify              commit
//	write, an acknowledgment   ackCommit; the record, of kind lock, names ackStart, which lies above
//	                           commit, so the observer has seen the change
//
// They are taken from the oracle once and stored, so every request of a restore can be repeated, by
// any process and in any order, with the same result. That replaces conflict checks and locks. It
// is safe because no other client reads or writes: a cell of the meta row, the fence, says that a
// restore is unfinished, and every client refuses reads and commits (ErrRestoring) from what it
// knows of that row (I20). As it may know that late, a restore into an instance with a schema waits
// as long as a collector does before it relies on the fence, and looks only then whether the tables
// are empty. An instance without a schema has no clients; there the fence is stored before the
// schema.
//
// The fence goes when everything is written, after a safepoint below the commit timestamp was
// announced: an older snapshot would see an empty table, and is refused instead.
//
// Rejected: transactions. A row would cost three requests instead of a share of one, and a
// half-restored instance would look like a small one. Rejected too: the original timestamps. Those
// of another oracle may lie in the future of this one (I1).

// Restore is a running restore. Its methods may be called concurrently.
type Restore struct {
	e        *engine.Engine
	cell     meta.Fence
	building map[string]bool // indexes without entries, by TABLE.INDEX
}

// PrepareRestore makes an instance ready for NewClient and BeginRestore: if it has no schema,
// PrepareRestore stores the fence, and then creates s and its tables. Otherwise the stored schema
// has to be s, but for its journal (ErrSchemaMismatch). appProfile is as for ApplySchema, id names
// the backup. The call can be repeated.
func PrepareRestore(ctx context.Context, project, instance, appProfile, id string, s *model.Schema, opts ...option.ClientOption) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	if err := catalog.Validate(s); err != nil {
		return err
	}
	if err := meta.CreateMetaTable(ctx, project, instance, model.TableProtection{}, opts...); err != nil {
		return err
	}
	bt, err := store.Connect(ctx, project, instance, appProfile, opts)
	if err != nil {
		return err
	}
	defer bt.Close()
	st := store.New(context.WithoutCancel(ctx), bt, &telemetry.Counters{})
	m, err := meta.Read(ctx, st)
	if err != nil {
		return err
	}
	switch {
	case m.Fence != nil && m.Fence.ID != id:
		return m.Fence.Refusal()
	case m.Schema != nil && !catalog.SameButForJournal(m.Schema, s):
		return fmt.Errorf("percolator: %w: the instance %s has another schema (version %d) than the backup; restore into an instance without one", model.ErrSchemaMismatch, instance, m.Version)
	case m.Schema != nil:
		return nil
	case m.Fence == nil:
		mut := store.NewMutation(2)
		mut.Put(layout.MetaFamily, meta.ColumnFence, store.MetaTimestamp, meta.Fence{ID: id, Fresh: true, Started: time.Now()}.Encode())
		there := store.EitherCell(meta.ColumnVersion, meta.ColumnFence)
		refused, err := st.CheckAndMutate(ctx, model.MetaTable, meta.RowKey, there, nil, mut)
		if err != nil {
			return fmt.Errorf("percolator: storing the fence of a restore: %w", err)
		}
		if refused {
			return fmt.Errorf("percolator: %w: another process is creating a schema in %s", model.ErrConflict, instance)
		}
	}
	return meta.ApplySchema(ctx, project, instance, appProfile, model.TableProtection{}, s, opts...)
}

// BeginRestore fences the instance, or takes up an interrupted restore of the same backup. Every
// table of the schema has to be empty (ErrNotEmpty, which leaves the instance as it was).
// incomplete lists indexes, as TABLE.INDEX, that BackfillIndex has to build afterwards. If clients
// may be using the instance it waits until all of them must know of the fence, and tells waiting,
// if that is not nil, for how long. ErrRestoring: a restore of another backup is unfinished.
func BeginRestore(ctx context.Context, e *engine.Engine, id string, incomplete []string, waiting func(time.Duration)) (*Restore, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	r := &Restore{e: e, building: catalog.SetOf(incomplete)}
	for range meta.MaxTries {
		m, err := e.Meta.Refresh(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case m.Fence == nil && m.Importing() != nil:
			return nil, m.Importing()
		case m.Fence == nil:
			err = r.fence(ctx, id)
		case m.Fence.ID != id:
			return nil, m.Fence.Refusal()
		case m.Fence.Abandoned:
			return nil, fmt.Errorf("percolator: %w: the restore of backup %s is being abandoned; end that first (--abandon)", model.ErrConflict, id)
		case m.Fence.Ready:
			r.cell = *m.Fence
			return r, nil
		default:
			err = r.ready(ctx, m, waiting)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("percolator: %w: the fence was changed by others %d times", model.ErrConflict, meta.MaxTries)
}

// fence stores the fence of an instance that may have clients. It checks the tables first, so that
// a fence on the wrong instance disturbs no client.
func (r *Restore) fence(ctx context.Context, id string) error {
	if err := r.checkEmpty(ctx); err != nil {
		return err
	}
	_, err := r.e.Meta.ReplaceFence(ctx, nil, &meta.Fence{ID: id, Started: time.Now()}, store.NewMutation(2))
	return err
}

// ready waits until the fence is in force, looks again whether the tables are empty, and takes the
// timestamps.
func (r *Restore) ready(ctx context.Context, m meta.State, waiting func(time.Duration)) error {
	if drain := catalog.DrainTime(r.e.Store.Timing); !m.Fence.Fresh {
		if waiting != nil {
			waiting(drain)
		}
		if err := retry.Sleep(ctx, drain); err != nil {
			return err
		}
	}
	if err := r.checkEmpty(ctx); err != nil {
		_, lerr := r.e.Meta.ReplaceFence(ctx, m.Fence, nil, store.NewMutation(2))
		return errors.Join(err, lerr)
	}
	if err := r.forgetBackfills(ctx); err != nil {
		return err
	}
	next := *m.Fence
	next.Ready = true
	for _, ts := range []*tso.Timestamp{&next.Start, &next.Commit, &next.AckStart, &next.AckCommit} {
		var err error
		if *ts, err = r.e.Clock.Next(ctx); err != nil {
			return err
		}
	}
	mut := store.NewMutation(2)
	if len(r.building) > 0 {
		states := meta.IndexStates{}
		maps.Copy(states, m.Indexes)
		for name := range r.building {
			states[name] = model.IndexState{Building: true}
		}
		mut.Put(layout.MetaFamily, meta.ColumnIndexes, store.MetaTimestamp, states.Encode())
	}
	_, err := r.e.Meta.ReplaceFence(ctx, m.Fence, &next, mut)
	return err
}

// forgetBackfills erases the positions of backfills of what was in the tables before: they say
// nothing of the rows that come.
func (r *Restore) forgetBackfills(ctx context.Context) error {
	var rows []string
	var muts []*store.Mutation
	err := r.e.Store.ReadRows(ctx, model.MetaTable, store.Prefix(meta.BackfillRowPrefix), store.Anything(), 0, func(row layout.Row) bool {
		mut := store.NewMutation(2)
		mut.EraseRow()
		rows, muts = append(rows, row.Key), append(muts, mut)
		return true
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	errs, err := r.e.Store.MutateRows(ctx, model.MetaTable, rows, muts)
	return errors.Join(append(errs, err)...)
}

// checkEmpty names the first table of the schema, or of an index, in which anything is stored.
func (r *Restore) checkEmpty(ctx context.Context) error {
	names := catalog.AllTables(r.e.Meta.Catalog.Load().Schema)
	found := make([]bool, len(names))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, name := range names {
		g.Go(func() (err error) {
			found[i], err = r.e.Store.HasRows(gctx, name, store.Anything())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if at := slices.Index(found, true); at >= 0 {
		return fmt.Errorf("percolator: table %q: %w; a restore needs empty tables: restore into another instance, or delete the rows (percolator del-range), and restore once the retention has passed since (an hour, unless the workers have another one) and a collection after it has removed them (percolator gc run)", names[at], model.ErrNotEmpty)
	}
	return nil
}

// CheckWritten checks, before a restore continues, that none of tables, into which it has written
// rows, is empty. ErrConflict: one was emptied since; call AbandonRestore.
func (r *Restore) CheckWritten(ctx context.Context, tables ...string) error {
	for _, name := range tables {
		switch found, err := r.e.Store.HasRows(ctx, name, store.Anything()); {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("percolator: table %q: %w: it was emptied in the middle of a restore; empty all, abandon the restore (--abandon), and start over", name, model.ErrConflict)
		}
	}
	return nil
}

// AbandonRestore lifts the fence of an unfinished restore, once the caller has removed everything
// that it wrote: all tables have to be empty (ErrNotEmpty). Without an unfinished restore it does
// nothing.
func AbandonRestore(ctx context.Context, e *engine.Engine) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	m, err := e.Meta.Refresh(ctx)
	if err != nil || m.Fence == nil {
		return err
	}
	if m.Fence.Repair != nil {
		return m.Fence.Refusal()
	}
	r, old := &Restore{e: e}, m.Fence
	// Otherwise the restore wrote nothing, and the tables hold users' data.
	if old.Ready || old.Abandoned {
		if err := r.checkEmpty(ctx); err != nil {
			return err
		}
		stopped := meta.Fence{ID: old.ID, Abandoned: true, Started: old.Started}
		if same, err := r.e.Meta.ReplaceFence(ctx, old, &stopped, store.NewMutation(2)); err != nil || !same {
			return errors.Join(err, r.changed(!same))
		}
		// Wait until every process that still restores must know.
		if err := retry.Sleep(ctx, catalog.DrainTime(e.Store.Timing)); err != nil {
			return err
		}
		if err := r.checkEmpty(ctx); err != nil {
			return err
		}
		old = &stopped
	}
	same, err := r.e.Meta.ReplaceFence(ctx, old, nil, store.NewMutation(2))
	if err == nil {
		_, err = e.Meta.Refresh(ctx)
	}
	return errors.Join(err, r.changed(err == nil && !same))
}

func (r *Restore) changed(yes bool) error {
	if yes {
		return fmt.Errorf("percolator: %w: another process has changed the fence; look again", model.ErrConflict)
	}
	return nil
}

// inForce refuses to write once another process has finished or abandoned the restore. What it
// knows is at most Timing.MetaMaxAge old, so a process that was stopped in the middle cannot bring
// back what has been collected since, nor write into tables that are in use.
func (r *Restore) inForce(ctx context.Context) error {
	m, err := r.e.Meta.Known(ctx)
	if err != nil {
		return err
	}
	if m.Fence == nil || m.Fence.Commit != r.cell.Commit {
		return fmt.Errorf("percolator: %w: another process has finished or abandoned the restore of backup %s", model.ErrConflict, r.cell.ID)
	}
	return nil
}

// CommitTimestamp is the commit timestamp of all values that the restore writes. It tells one
// restore of a backup from another.
func (r *Restore) CommitTimestamp() tso.Timestamp { return r.cell.Commit }

// Finish lifts the fence after the caller has written everything, and has the journal built, by a
// sweep. Running clients notice within Timing.MetaMaxAge. ErrConflict: the fence is no longer this
// restore's.
func (r *Restore) Finish(ctx context.Context) error {
	m, err := r.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	if m.Fence == nil || m.Fence.Commit != r.cell.Commit {
		return fmt.Errorf("percolator: %w: another process has finished the restore of backup %s", model.ErrConflict, r.cell.ID)
	}
	// Refused if a collector has announced a newer one, or a hold is in the way.
	if _, err := r.e.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return r.e.Meta.StoreSafepoint(ctx, r.cell.Commit-1, r.cell.AckCommit)
	}); err != nil {
		return fmt.Errorf("percolator: the safepoint of a restore: %w", err)
	}
	if r.e.Meta.Journaled() { // no entry leads to what was written
		if err := r.e.Meta.ReopenJournal(ctx); err != nil {
			return err
		}
	}
	if _, err := r.e.Meta.ReplaceFence(ctx, m.Fence, nil, store.NewMutation(2)); err != nil {
		return err
	}
	m, err = r.e.Meta.Refresh(ctx)
	if err == nil && m.Fence != nil {
		err = m.Fence.Refusal()
	}
	return err
}
