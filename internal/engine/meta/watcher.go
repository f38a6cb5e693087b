package meta

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Watcher keeps a client's knowledge of the meta row fresh. Its methods may be called concurrently.
// It measures ages from before it sent the request that read the row. The monotonic clock stands
// still while the machine is suspended, so they are at least what the wall clock shows, and what
// the client learns of the oracle's.
type Watcher struct {
	Store   *store.Store
	Clock   *timestamps.Source
	Config  store.Settings
	Catalog atomic.Pointer[catalog.Catalog]

	asked    atomic.Int64 // requests for the row
	replaced atomic.Pointer[ReplacedError]
	doubted  atomic.Pointer[time.Time] // since when the row is found older than it was; nil: it is not

	mu     sync.RWMutex
	last   State
	nth    int64 // of those that asked, which of them last is from
	asOf   timestamps.Moment
	oracle tso.Timestamp // its time at asOf, as far as this client could tell; 0: it could not
	shared *reading      // of the callers of Known; nil: none is in flight

	// learned is closed, and becomes nil, when last changes; nil: nobody waits for that.
	learned chan struct{}
}

// Refresh reads the meta row now. Errors: ErrSchemaMismatch once its schema is gone, or if it is
// older than it was and no second look has confirmed that.
func (w *Watcher) Refresh(ctx context.Context) (State, error) {
	nth, asked := w.asked.Add(1), w.Clock.Moment()
	oracle, estimated := w.Clock.EstimatedTime()
	w.mu.RLock()
	known := w.last
	w.mu.RUnlock()
	sent := time.Now()
	m, err := reread(ctx, w.Store, known)
	if older := w.checkReplaced(sent, known, m, err); err == nil {
		err = older
	}
	if err != nil {
		return m, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if nth < w.nth { // two of them may have the same time
		return m, nil
	}
	old := w.last
	if estimated {
		oracle = max(oracle, m.Now)
	}
	w.last, w.nth, w.asOf, w.oracle = m, nth, asked, oracle
	if w.learned != nil {
		close(w.learned)
		w.learned = nil
	}
	if old.Version != m.Version && old.Version != 0 {
		w.adopt(old, m)
	}
	return m, nil
}

// Run refreshes until ctx ends. After a failed read it tries again within a second; meanwhile its
// knowledge only grows old.
func (w *Watcher) Run(ctx context.Context) {
	every := catalog.RefreshInterval(w.Store.Timing)
	for wait := every; retry.Sleep(ctx, wait) == nil; {
		wait = every
		if _, err := w.Refresh(ctx); err != nil {
			wait = min(time.Second, every)
		}
	}
}

// Known returns the newest knowledge, and reads the row when that has grown older than MetaMaxAge.
// What is too old when it arrives, at a process that was stopped meanwhile, it reads again. Errors:
// ErrSnapshotTooOld when the row cannot be read.
//
// The caller takes the deadline of what it is going to send before it calls Known: so that ends
// within a drain of any change of the row that the caller does not know of (I14).
func (w *Watcher) Known(ctx context.Context) (State, error) {
	oldest := w.Store.Timing.MetaMaxAge
	for tries := 0; ; tries++ {
		switch m, age := w.known(); {
		case age < oldest:
			return m, nil
		case tries == MaxTries:
			return m, fmt.Errorf("percolator: %w: %d answers with the safepoint were older than %v when they arrived", model.ErrSnapshotTooOld, tries, oldest)
		}
		if m, err := w.refreshShared(ctx); err != nil {
			return m, fmt.Errorf("percolator: %w: the safepoint has not been readable for %v: %w", model.ErrSnapshotTooOld, oldest, err)
		}
	}
}

// reading is a Refresh whose outcome several callers share.
type reading struct {
	started time.Time
	ended   chan struct{}
	m       State
	err     error
}

// sharedFor is how long callers join a reading: one that takes longer may have got lost.
const sharedFor = time.Second

// refreshShared is Refresh for whoever needs no more than young knowledge. At the end of an outage
// hundreds of reads come here at once: they share one request. Any other answer serves them as
// well, so that nobody waits for one that never comes while later callers, or Run, get theirs.
func (w *Watcher) refreshShared(ctx context.Context) (State, error) {
	r, learned := w.share()
	select {
	case <-r.ended:
		return r.m, r.err
	case <-learned:
		return State{}, nil
	case <-ctx.Done():
		return State{}, retry.WithContext(ctx, ctx.Err())
	}
}

// share is the reading in flight, or a new one, which outlasts the caller that began it. learned is
// closed when any request is answered.
func (w *Watcher) share() (r *reading, learned <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.learned == nil {
		w.learned = make(chan struct{})
	}
	if w.shared != nil && time.Since(w.shared.started) <= sharedFor {
		return w.shared, w.learned
	}
	r = &reading{started: time.Now(), ended: make(chan struct{})}
	w.shared = r
	go func() {
		defer close(r.ended)
		ctx, cancel := context.WithTimeout(w.Store.Background, w.Store.Timing.RequestLifetime)
		defer cancel()
		r.m, r.err = w.Refresh(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.shared == r {
			w.shared = nil
		}
	}()
	return r, w.learned
}

// known is the newest knowledge, and how old it is.
func (w *Watcher) known() (State, time.Duration) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	age := w.Clock.Since(w.asOf)
	if w.oracle > 0 {
		age = max(age, w.oracleTime(w.last).Sub(w.oracle))
	}
	return w.last, age
}

// held reports whether a hold keeps what a snapshot at ts reads.
func (m State) held(ts, now tso.Timestamp) bool {
	return slices.ContainsFunc(m.Holds, func(h model.Hold) bool { return h.Timestamp <= ts && h.Expires > now })
}

// oracleTime is the newest time of the oracle that this client knows of. It asks no server, so it
// may be any amount late, and is never early.
func (w *Watcher) oracleTime(m State) tso.Timestamp { return max(w.Clock.Newest.Timestamp(), m.Now) }

// Age is by how much the oracle is known to have moved on since ts. Unlike this process's clock,
// that of the oracle goes on while the machine is suspended.
func (w *Watcher) Age(ts tso.Timestamp) time.Duration {
	m, _ := w.Snapshot()
	return w.oracleTime(m).Sub(ts)
}

// CheckRead refuses what a caller has read at ts when collection may have removed some of it (I16),
// or a repair has (gap.go), or while a restore or a repair is unfinished (fence.go), or an import
// into one of the tables that it was read from (importing.go), or if one of them was dropped
// (drop.go). Callers ask after the data has arrived, and before a commit.
func (w *Watcher) CheckRead(ctx context.Context, ts tso.Timestamp, tables ...string) error {
	m, err := w.Known(ctx)
	if err != nil {
		return err
	}
	return cmp.Or(w.checkRead(m, ts, tables...), m.checkErased(ts, tables))
}

// CheckChanges is CheckRead of the changes after ts that transactions have made: none of them is of
// an import, so it matters not that one was aborted.
func (w *Watcher) CheckChanges(ctx context.Context, ts tso.Timestamp, tables ...string) error {
	m, err := w.Known(ctx)
	if err != nil {
		return err
	}
	return w.checkRead(m, ts, tables...)
}

// checkRead is CheckRead, but for checkErased, by what is stored as m says.
func (w *Watcher) checkRead(m State, ts tso.Timestamp, tables ...string) error {
	if m.Fence != nil {
		return m.Fence.Refusal()
	}
	if ts <= m.Safepoint {
		return fmt.Errorf("percolator: %w: the snapshot at %d is at or below the safepoint %d", model.ErrSnapshotTooOld, ts, m.Safepoint)
	}
	if err := m.checkGap(ts); err != nil {
		return err
	}
	if err := cmp.Or(m.checkImports(ts, tables), m.checkDropped(tables)); err != nil {
		return err
	}
	if now := w.oracleTime(m); now.Sub(ts) > w.Config.Retention && !m.held(ts, now) {
		return fmt.Errorf("percolator: %w: the snapshot of %v is beyond the retention of %v, and no hold keeps it", model.ErrSnapshotTooOld, ts.Time(), w.Config.Retention)
	}
	return nil
}

// CheckRemembered is CheckRead before a snapshot at a remembered timestamp. Where a new timestamp
// shows an import or an index that ts does not, it returns ErrSnapshotTooOld.
func (w *Watcher) CheckRemembered(ctx context.Context, ts tso.Timestamp) error {
	if err := w.CheckRead(ctx, ts); err != nil {
		return err
	}
	m, _ := w.Snapshot()
	var since tso.Timestamp
	for _, i := range m.Imports {
		since = max(since, i.Since, i.erasedAfter(ts))
	}
	for _, st := range m.Indexes {
		since = max(since, st.Since)
	}
	if ts < since {
		return fmt.Errorf("percolator: %w: an import or an index is there since %d, after %d", model.ErrSnapshotTooOld, since, ts)
	}
	return nil
}

func (w *Watcher) noSchema() error {
	return fmt.Errorf("percolator: %w: the instance %s has no schema; percolator schema apply, or CreateSchema, stores one", model.ErrSchemaMismatch, w.Config.Instance)
}

// CheckSchema compares the stored schema with want, if not nil, and takes it over. The client calls
// it once, before it sends anything else. Errors: ErrSchemaMismatch, and those of
// catalog.ValidateStored.
func (w *Watcher) CheckSchema(want *model.Schema) error {
	m, _ := w.Snapshot()
	if m.Schema == nil {
		return w.noSchema()
	}
	if want != nil {
		if err := catalog.ValidateStored(want); err != nil {
			return err
		}
		want, err := catalog.Beside(m.Schema, want)
		if err != nil {
			return err
		}
		if !catalog.SameButForJournal(m.Schema, want) {
			return fmt.Errorf("percolator: %w: Config.Schema is not the stored schema (version %d): %s; make them equal, or leave Config.Schema nil",
				model.ErrSchemaMismatch, m.Version, drift(m.Schema, want))
		}
	}
	w.Catalog.Store(catalog.New(m.Schema))
	// The timing comes before any other request, and never changes.
	w.Store.Timing = catalog.EffectiveTiming(m.Schema.Timing)
	return nil
}

// adopt takes over a newer schema that another client has stored.
func (w *Watcher) adopt(old, now State) {
	if now.Schema != nil {
		w.Catalog.Store(catalog.New(now.Schema))
		w.Config.Logger.Info("schema changed", "from", old.Version, "to", now.Version)
	}
}

// HasWeak reports whether any table has weak columns.
func (w *Watcher) HasWeak() bool {
	return slices.ContainsFunc(w.Catalog.Load().Schema.Tables, func(t model.Table) bool { return len(t.Weak) > 0 })
}

// HasTable reports whether the schema has a table. The table may be new, so it reads the stored
// schema before it says no, and fails where it cannot (I26).
func (w *Watcher) HasTable(ctx context.Context, table string) (bool, error) {
	has := func() bool { return w.Catalog.Load().Tables[table] != nil }
	if has() {
		return true, nil
	}
	if _, err := w.Refresh(ctx); err != nil && !has() {
		return false, err
	}
	return has(), nil
}

// RequireTable returns ErrSchemaMismatch for a table that the schema does not have, and the error
// of HasTable where that is not known.
func (w *Watcher) RequireTable(ctx context.Context, table string) error {
	known, err := w.HasTable(ctx, table)
	if err == nil && !known {
		err = w.Catalog.Load().UnknownTable(table)
	}
	return err
}

// CheckTable returns ErrSchemaMismatch for a table that the schema does not declare.
func (w *Watcher) CheckTable(table string) error {
	if _, ok := w.Catalog.Load().UserTable(table); !ok {
		return w.Catalog.Load().UnknownTable(table)
	}
	return nil
}

// CheckReadable validates the name of a cell that the caller wants to read.
func (w *Watcher) CheckReadable(cell model.Cell) error {
	info, ok := w.Catalog.Load().UserTable(cell.Table)
	if !ok {
		return w.Catalog.Load().UnknownTable(cell.Table)
	}
	if err := catalog.ValidateRow(cell); err != nil {
		return err
	}
	return info.CheckColumn(cell)
}

// CheckType refuses to read or write a declared column as another type
// (catalog.TableInfo.CheckType).
func (w *Watcher) CheckType(cell model.Cell, as model.Type) error {
	if info, ok := w.Catalog.Load().UserTable(cell.Table); ok {
		return info.CheckType(cell, as)
	}
	return nil // as CheckReadable tells
}

// CheckIndex refuses an index as one over a column that it does not cover. A scan tells whether
// there is such an index.
func (w *Watcher) CheckIndex(column model.Cell, index string) error {
	found, err := w.FindIndex(column.Table, index)
	if err != nil || found.Index.Column == column.Column {
		return nil
	}
	return catalog.CellError(model.ErrInvalidArgument, column, "index %q is over column %q", index, found.Index.Column)
}

// CheckColumns validates the names of columns that the caller wants to scan in a table.
func (w *Watcher) CheckColumns(table string, columns []string) error {
	info, ok := w.Catalog.Load().UserTable(table)
	if !ok {
		return w.Catalog.Load().UnknownTable(table)
	}
	for _, col := range columns {
		if err := info.CheckColumn(model.Cell{Table: table, Column: col}); err != nil {
			return err
		}
	}
	return nil
}

// HoldsAt counts the holds that are neither released nor expired.
func (m State) HoldsAt(now tso.Timestamp) (n int64) {
	for _, h := range m.Holds {
		if h.Timestamp != released && h.Expires > now {
			n++
		}
	}
	return n
}

// Snapshot returns what the client knows without asking, and since when.
func (w *Watcher) Snapshot() (m State, asOf time.Time) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last, w.asOf.Time
}

// StoreSafepoint announces the safepoint want, at the oracle's time now. A greater safepoint, or a
// hold at or below want, refuses it.
func (w *Watcher) StoreSafepoint(ctx context.Context, want, now tso.Timestamp) (refused bool, err error) {
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, metaSafe, store.MetaTimestamp, encodeTimestamp(want))
	mut.Put(layout.MetaFamily, metaNow, store.MetaTimestamp, encodeTimestamp(now))
	return w.Store.CheckAndMutate(ctx, model.MetaTable, RowKey, store.SafepointRefused(metaSafe, holdPrefix, want), nil, mut)
}
