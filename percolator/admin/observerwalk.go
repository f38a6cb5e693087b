package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The operator who adds an observer to a column or removes one decides what happens to existing
// cells:
//
//	added      it runs for what changes and for what is notified from now on; BackfillObserver
//	           notifies the rest
//	removed    its acknowledgments stay, and would count if it came back; ForgetObserver deletes them
//
// Both go through the table in row order, a page at a time, and keep their position in
// percolator_meta, so that an interrupted walk continues. Before any position that was ever stored
// everything is done; two at once do no harm.

// ObserverOptions configures BackfillObserver and ForgetObserver. The zero value is useful.
type ObserverOptions struct {
	// RowsPerPage is how many rows one request reads. 0: 1,000. At most 10,000.
	RowsPerPage int
	// Pause separates two pages, to leave room for other clients. 0: none.
	Pause time.Duration
	// Count counts the rows first, in one more pass over the table, and sets
	// ObserverProgress.Total.
	Count bool
	// DryRun only counts in Changed what would be changed, from where an earlier run was
	// interrupted.
	DryRun bool
	// Progress, if set, is called after every page, one call at a time. It must not block.
	Progress func(ObserverProgress)
}

// ObserverProgress tells how far BackfillObserver or ForgetObserver has come. The counts include
// interrupted earlier runs.
type ObserverProgress struct {
	Row     string `json:"-"` // rows before it are done
	Rows    int64  // looked at, of those that have the column
	Changed int64  // Notified, or freed of an acknowledgment
	Total   int64  // rows that have the column, counted at the beginning; 0: not counted
	Resumed bool   `json:"-"` // an earlier run had started
}

func (o ObserverOptions) withDefaults() (ObserverOptions, error) {
	o.RowsPerPage = cmp.Or(o.RowsPerPage, 1000)
	if o.Progress == nil {
		o.Progress = func(ObserverProgress) {}
	}
	if o.RowsPerPage < 0 || o.RowsPerPage > 10_000 || o.Pause < 0 {
		return o, fmt.Errorf("percolator: %w: ObserverOptions: RowsPerPage is at most 10,000, and nothing is negative", model.ErrInvalidArgument)
	}
	return o, nil
}

// observerWalk is one run of BackfillObserver or ForgetObserver.
type observerWalk struct {
	e *engine.Engine
	walkPosition
	undone   walkPosition // of the opposite walk, which has to begin anew after this one
	table    string
	column   string // the observed one
	observer string
	life     meta.Life // of the column as one that is observed
	columns  []string  // rows without any of them are passed over
	opts     ObserverOptions
	at       ObserverProgress

	// page works on some rows and returns how many it has changed.
	page func(ctx context.Context, rows []walkedRow) (changed int64, err error)
}

// walkedRow is a row with the records of the columns that matter.
type walkedRow struct {
	key  string
	seen layout.RowVersions
}

// The rows of percolator_meta with the positions begin like this.
const (
	backfillObserverRow = meta.BackfillObserverRowPrefix
	forgetObserverRow   = meta.ForgetObserverRowPrefix
)

func (a *Admin) newObserverWalk(ctx context.Context, what, undoes, table, column, observer string, opts ObserverOptions) (*observerWalk, error) {
	opts, err := opts.withDefaults()
	if err == nil {
		err = retry.CheckContext(ctx)
	}
	if err != nil {
		return nil, err
	}
	m, err := a.e.Meta.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	info, ok := a.e.Meta.Catalog.Load().UserTable(table)
	switch {
	case !ok:
		return nil, a.e.Meta.Catalog.Load().UnknownTable(table)
	case !info.IsObserved[column]:
		return nil, info.Unobserved(column)
	}
	if err := checkObserver(model.Cell{Table: table, Column: column}, observer); err != nil {
		return nil, err
	}
	of := table + "\x00" + column + "\x00" + observer
	return &observerWalk{e: a.e, table: table, column: column, observer: observer, life: m.LifeOfObserved(table, column), opts: opts, walkPosition: walkPosition{positionAt(a.e.Store, what+of)}, undone: walkPosition{positionAt(a.e.Store, undoes+of)}}, nil
}

// run goes from where an earlier run ended to the end of the table.
func (w *observerWalk) run(ctx context.Context) (ObserverProgress, error) {
	open, end := w.e.WhileOpen(ctx)
	defer end()
	err := w.walk(open)
	return w.at, w.e.OrClosed(ctx, err)
}

func (w *observerWalk) walk(ctx context.Context) error {
	if err := w.resume(ctx); err != nil {
		return err
	}
	if !w.opts.DryRun {
		if err := w.undone.forget(ctx); err != nil {
			return err
		}
	}
	if w.opts.Count && w.at.Total == 0 {
		if err := w.count(ctx); err != nil {
			return err
		}
	}
	for {
		more, err := w.step(ctx)
		if err != nil {
			return err
		}
		w.opts.Progress(w.at)
		if !more {
			return w.finish(ctx)
		}
		if w.opts.Pause > 0 {
			if err := retry.Sleep(ctx, w.opts.Pause); err != nil {
				return err
			}
		}
	}
}

// step works on one page and stores the position behind it. A page may be empty: where few rows
// have the column, a request comes to no more than a position.
func (w *observerWalk) step(ctx context.Context) (more bool, err error) {
	m, _ := w.e.Meta.Snapshot()
	if err := w.same(m); err != nil {
		return false, err
	}
	began, err := w.e.Clock.Next(ctx)
	if err != nil {
		return false, err
	}
	page, err := w.e.Store.ReadPage(ctx, w.table, w.left(), w.records(recordsSeen), store.PageSize{Rows: w.opts.RowsPerPage})
	if err != nil {
		return false, err
	}
	switch err := w.e.Meta.CheckRead(ctx, began, w.table); { // the page may show what an abort erases (I28)
	case errors.Is(err, model.ErrSnapshotTooOld):
		return false, fmt.Errorf("percolator: table %q: %w: an import has ended meanwhile; call again: %w", w.table, model.ErrConflict, err)
	case err != nil:
		return false, err
	}
	rows := ordered.Map(page.Rows, func(row layout.Row) walkedRow { return walkedRow{row.Key, layout.DecodeRow(w.table, row)} })
	if len(rows) > 0 {
		changed, err := w.page(ctx, rows)
		if err != nil {
			return false, err
		}
		w.at.Rows += int64(len(rows))
		w.at.Changed += changed
	}
	if w.at.Row == page.Rest.Start { // the table has no more of such rows
		return false, nil
	}
	w.at.Row = page.Rest.Start
	return page.More, w.save(ctx)
}

// same refuses to go on for a column that was dropped meanwhile, or in a table of other rows.
func (w *observerWalk) same(m meta.State) error {
	return w.life.Became(m.LifeOfObserved(w.table, w.column), w.table)
}

// recordsSeen is how many of the newest records of a cell are read. If all of them say that nothing
// changed, the cell counts as changed.
const recordsSeen = 8

// records is the newest records of the columns, and their locks.
func (w *observerWalk) records(versions int) store.Query {
	return store.RecordsAndLocks(w.columns, versions)
}

// left is the rows that are not yet done.
func (w *observerWalk) left() model.Range { return model.Between(w.at.Row, "") }

// count counts the rows that are left.
func (w *observerWalk) count(ctx context.Context) error {
	total := w.at.Rows
	for page, err := range w.e.Store.NewPass(w.table, w.left(), w.records(1), store.PageSize{Rows: 10_000}).Pages(ctx) {
		if err != nil {
			return err
		}
		total += int64(len(page.Rows))
	}
	w.at.Total = total
	return w.save(ctx)
}

// walkCell is the stored position.
type walkCell struct {
	ObserverProgress
	RowKey []byte    // ObserverProgress.Row, which JSON would damage
	Life   meta.Life `json:",omitzero"` // of what is observed
}

func (w *observerWalk) resume(ctx context.Context) error {
	v, err := w.Read(ctx)
	if err != nil || v == nil {
		return err
	}
	var at walkCell
	if err := json.Unmarshal(v, &at); err != nil {
		return unreadable(w.MetaCell, "a position")
	}
	if at.Life == w.life {
		w.at = at.ObserverProgress
		w.at.Row, w.at.Resumed = string(at.RowKey), true
	}
	return nil
}

func (w *observerWalk) finish(ctx context.Context) error {
	if w.opts.DryRun {
		return nil
	}
	m, err := w.e.Meta.Refresh(ctx)
	if err == nil {
		err = w.same(m)
	}
	if err != nil {
		return err
	}
	return w.walkPosition.forget(ctx)
}

func (w *observerWalk) save(ctx context.Context) error {
	if w.opts.DryRun {
		return nil
	}
	return w.walkPosition.save(ctx, walkCell{w.at, []byte(w.at.Row), w.life})
}

// lastChange is when the newest put was committed at the latest; 0 if the cell does not exist. In
// doubt it is later.
func lastChange(v *layout.Versions) tso.Timestamp {
	if v == nil {
		return 0
	}
	if len(v.Locks) > 0 || v.Corrupt != nil {
		// A committed put may be under the lock; its readers report corruption.
		return tso.MaxTimestamp
	}
	for _, w := range v.Writes {
		switch w.Kind {
		case layout.KindPut:
			return w.CommitTS
		case layout.KindDelete:
			return 0
		}
	}
	if len(v.Writes) == recordsSeen {
		return v.Writes[0].CommitTS
	}
	return 0
}
