// Package meta keeps what all clients of an instance must agree on, in one row of percolator_meta:
// the schema, the safepoint, the GC watermark, holds, the states of indexes, the fence of a restore
// or a repair, the gaps that repairs leave, and the fences of tables into which something is
// imported. It stands on store and timestamps. The layers above
// ask it before they trust what they have read.
package meta

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/tso"
)

// All cells of the meta row have one fixed timestamp, so that a new value replaces the old one.
const (
	Family          = "meta"
	oracleFamily    = tso.BigtableFamily
	RowKey          = "meta"
	ColumnVersion   = "version"
	metaSchema      = "schema"
	metaSafe        = "safepoint"
	ColumnWatermark = "mark"

	// CollectorRow holds the collector's lease and position.
	CollectorRow = "collector"
	// SweepRow holds the lease and the position of the sweep.
	SweepRow = "sweep"
	// BackfillRowPrefix begins the rows with the positions of backfills of indexes.
	BackfillRowPrefix = "backfill:"
	// LoadRowPrefix begins the rows with the positions of loads.
	LoadRowPrefix = "load:"
	// WatchRowPrefix begins the rows with the positions of watchers.
	WatchRowPrefix = "watch:"
	// DeletionRowPrefix begins the rows with the positions of deletions of ranges.
	DeletionRowPrefix = "delete:"
	// BackfillObserverRowPrefix and ForgetObserverRowPrefix begin those of walks for observers.
	BackfillObserverRowPrefix = "observer-backfill:"
	ForgetObserverRowPrefix   = "observer-forget:"

	// MaxTries bounds the attempts of a change that loses to other clients' changes.
	MaxTries = 8
	// ReleaseTimeout bounds giving something back after the caller's context has ended.
	ReleaseTimeout = 2 * time.Second
)

// State is the meta row as a request read it.
type State struct {
	Schema    *model.Schema
	Version   uint64
	Safepoint tso.Timestamp     // reads at or below it are refused
	Watermark tso.Timestamp     // collection has removed nothing newer
	Now       tso.Timestamp     // when the safepoint was announced
	Holds     []Hold            // oldest snapshot first
	Indexes   IndexStates       // of indexes that were added to existing tables
	Fence     *Fence            // nil: no restore or repair is unfinished
	Imports   map[string]Import // by table
	Gaps      []Gap             // snapshots that repairs have removed
	Journal   JournalState      // of the journal, if the schema does not disable it
	Dropped   Drops             // tables of Bigtable that the schema has had
	Lives     Lives             // of what has the name of something that was dropped
	Timing    model.Timing      // of the first schema, where that leaves it open

	stored []layout.Item // its cells
}

// Read reads the meta row. Errors: ErrCorrupt, and those of the store.
func Read(ctx context.Context, s *store.Store) (State, error) { return reread(ctx, s, State{}) }

// reread is Read, and decodes only what is not known: clients read the row all the time, and it
// hardly changes.
func reread(ctx context.Context, s *store.Store, known State) (State, error) {
	row, err := s.ReadRow(ctx, model.MetaTable, RowKey, store.Cells("", 0))
	if err != nil {
		return State{}, err
	}
	m := State{stored: row.Of(layout.MetaFamily)}
	for _, item := range m.stored {
		if m.take(&known, item) {
			continue
		}
		switch err := m.decode(item.Column, item.Value); {
		case errors.Is(err, model.ErrSchemaMismatch):
			return State{}, err
		case err != nil:
			return State{}, fmt.Errorf("percolator: %w: column %q of %s cannot be read", model.ErrCorrupt, item.Column, model.MetaTable)
		}
	}
	slices.SortFunc(m.Holds, func(a, b Hold) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return m, nil
}

// take takes one column from what is known, if it is stored as it was then and costs something to
// decode.
func (m *State) take(known *State, item layout.Item) bool {
	if old := known.value(item.Column); old == nil || !bytes.Equal(item.Value, old) {
		return false
	}
	switch column := item.Column; {
	case column == metaSchema:
		m.Schema = known.Schema
	case column == ColumnIndexes:
		m.Indexes = known.Indexes
	case column == columnDropped:
		m.Dropped = known.Dropped
	case column == columnLives:
		m.Lives = known.Lives
	case strings.HasPrefix(column, importPrefix):
		table := strings.TrimPrefix(column, importPrefix)
		m.setImport(table, known.Imports[table])
	default:
		return false
	}
	return true
}

// value is a column as it is stored; nil if it is not.
func (m *State) value(column string) []byte {
	at, found := slices.BinarySearchFunc(m.stored, column, func(it layout.Item, column string) int { return strings.Compare(it.Column, column) })
	if !found {
		return nil
	}
	return m.stored[at].Value
}

// decode takes one column of the meta row, and ignores columns of later versions.
func (m *State) decode(column string, value []byte) (err error) {
	switch {
	case column == metaSchema:
		m.Schema, err = model.DecodeSchema(value)
	case column == ColumnIndexes:
		m.Indexes, err = decodeIndexStates(value)
	case column == ColumnFence:
		m.Fence, err = decodeFence(value)
	case column == columnJournal:
		m.Journal, err = decodeJournalState(value)
	case column == columnDropped:
		m.Dropped, err = decodeDrops(value)
	case column == columnLives:
		m.Lives, err = decodeLives(value)
	case column == columnTiming:
		m.Timing, err = decodeTiming(value)
	case column == columnGaps:
		m.Gaps, err = decodeGaps(value)
	case column == ColumnVersion:
		m.Version, err = decodeUint64(value)
	case column == metaSafe:
		m.Safepoint, err = decodeTimestamp(value)
	case column == ColumnWatermark:
		m.Watermark, err = decodeTimestamp(value)
	case column == metaNow:
		m.Now, err = decodeTimestamp(value)
	case strings.HasPrefix(column, importPrefix):
		err = m.decodeImport(column, value)
	case strings.HasPrefix(column, holdPrefix):
		var h Hold
		h, err = decodeHold(column, value)
		m.Holds = append(m.Holds, h)
	}
	return err
}

func decodeTimestamp(b []byte) (tso.Timestamp, error) {
	v, err := decodeUint64(b)
	return tso.Timestamp(v), err
}

func decodeUint64(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, model.ErrCorrupt
	}
	return binary.BigEndian.Uint64(b), nil
}

// maxCellBytes bounds what grows with tables, columns, indexes and drops. Bigtable advises against
// longer values.
const maxCellBytes = 10 << 20

// replace stores the schema of next, and the states of its indexes and its journal, as the next
// version, if m is still what is stored. applied may be false although an attempt whose answer was
// lost succeeded.
func (m State) replace(ctx context.Context, s *store.Store, next State) (applied bool, err error) {
	mut := store.NewMutation(6)
	if next.Schema != m.Schema {
		mut.Put(layout.MetaFamily, metaSchema, store.MetaTimestamp, model.EncodeSchema(next.Schema))
	}
	if next.Journal != m.Journal {
		mut.Put(layout.MetaFamily, columnJournal, store.MetaTimestamp, next.Journal.encode())
	}
	if !maps.Equal(next.Dropped, m.Dropped) {
		mut.Put(layout.MetaFamily, columnDropped, store.MetaTimestamp, next.Dropped.encode())
	}
	if !maps.Equal(next.Lives, m.Lives) {
		mut.Put(layout.MetaFamily, columnLives, store.MetaTimestamp, next.Lives.encode())
	}
	mut.Put(layout.MetaFamily, ColumnIndexes, store.MetaTimestamp, next.Indexes.Encode())
	mut.Put(layout.MetaFamily, ColumnVersion, store.MetaTimestamp, binary.BigEndian.AppendUint64(nil, m.Version+1))
	for _, c := range mut.Changes() {
		if len(c.Value) > maxCellBytes {
			return false, fmt.Errorf("percolator: %w: column %q of %s would have %d bytes, more than %d: every client reads it", model.ErrTooLarge, c.Column, model.MetaTable, len(c.Value), maxCellBytes)
		}
	}
	var old []byte
	if m.Schema != nil {
		old = binary.BigEndian.AppendUint64(nil, m.Version)
	}
	return s.CompareAndMutate(ctx, RowKey, ColumnVersion, old, mut)
}

// storeSchema replaces the stored schema, unless another client has replaced it since old was read.
func storeSchema(ctx context.Context, s *store.Store, old State, next *model.Schema) error {
	if old.Schema != nil && string(model.EncodeSchema(old.Schema)) == string(model.EncodeSchema(next)) {
		return nil
	}
	applied, err := old.replace(ctx, s, State{Schema: next, Indexes: old.Indexes.after(old.Schema, next), Journal: old.Journal.after(old.Schema, next), Dropped: old.Dropped.without(next), Lives: old.Lives})
	if err == nil && applied {
		return nil
	}
	// Another client was faster, or the answer was lost: what counts is what is stored now.
	now, rerr := Read(ctx, s)
	switch {
	case rerr != nil:
		return errors.Join(err, rerr)
	case now.Schema != nil && string(model.EncodeSchema(now.Schema)) == string(model.EncodeSchema(next)):
		return nil
	case err != nil:
		return fmt.Errorf("percolator: storing the schema: %w", err)
	default:
		return fmt.Errorf("percolator: %w: another client stored another schema at the same time; run it again", model.ErrSchemaMismatch)
	}
}

// Watcher keeps a client's knowledge of the meta row fresh. Its methods may be called concurrently.
// It measures ages from before it sent the request that read the row, by the monotonic clock and,
// as that stands still while the machine is suspended, by what it learns of the oracle's.
type Watcher struct {
	Store   *store.Store
	Clock   *timestamps.Source
	Config  model.Settings
	Catalog atomic.Pointer[model.Catalog]

	asked    atomic.Int64 // requests for the row
	replaced atomic.Bool  // it was logged

	mu     sync.RWMutex
	last   State
	nth    int64 // of those that asked, which of them last is from
	asOf   time.Time
	oracle tso.Timestamp // its time at asOf, as far as this client could tell; 0: it could not
}

// Refresh reads the meta row now.
func (w *Watcher) Refresh(ctx context.Context) (State, error) {
	nth, asked := w.asked.Add(1), time.Now()
	oracle, estimated := w.Clock.EstimatedTime()
	w.mu.RLock()
	known := w.last
	w.mu.RUnlock()
	m, err := reread(ctx, w.Store, known)
	w.checkReplaced(known, m, err)
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
	if old.Version != m.Version && old.Version != 0 {
		w.adopt(old, m)
	}
	return m, nil
}

// checkReplaced logs an error if the instance below this client was replaced, as an emulator is
// that is started anew: what a request found is older than what was known when it was sent. The
// client's locks, its reads and its schema are those of an instance that is no more.
func (w *Watcher) checkReplaced(known, m State, err error) {
	found := m.Version
	switch {
	case known.Schema == nil:
		return
	case status.Code(err) == codes.NotFound:
		found = 0
	case err != nil || m.Version > known.Version, m.Version == known.Version && bytes.Equal(m.value(metaSchema), known.value(metaSchema)):
		return
	}
	if !w.replaced.Swap(true) {
		w.Config.Logger.Error("the instance is not the one that this program began with: its stored schema is gone, or older; restart the program once the schema is stored",
			"known", known.Version, "found", found)
	}
}

// Run refreshes until ctx ends. After a failed read it tries again within a second; meanwhile its
// knowledge only grows old.
func (w *Watcher) Run(ctx context.Context) {
	every := model.RefreshInterval(w.Store.Timing)
	wait := every
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
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
		if m, err := w.Refresh(ctx); err != nil {
			return m, fmt.Errorf("percolator: %w: the safepoint has not been readable for %v: %w", model.ErrSnapshotTooOld, oldest, err)
		}
	}
}

// known is the newest knowledge, and how old it is.
func (w *Watcher) known() (State, time.Duration) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	age := time.Since(w.asOf)
	if w.oracle > 0 {
		age = max(age, w.oracleTime(w.last).Sub(w.oracle))
	}
	return w.last, age
}

// held reports whether a hold keeps what a snapshot at ts reads.
func (m State) held(ts, now tso.Timestamp) bool {
	return slices.ContainsFunc(m.Holds, func(h Hold) bool { return h.Timestamp <= ts && h.Expires > now })
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
	return w.checkRead(m, ts, tables...)
}

// checkRead is CheckRead by what is stored as m says.
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
		since = max(since, i.Since)
	}
	for _, st := range m.Indexes {
		since = max(since, st.Since)
	}
	if ts < since {
		return fmt.Errorf("percolator: %w: an import or an index is there since %d, after %d", model.ErrSnapshotTooOld, since, ts)
	}
	return nil
}

// CheckSchema compares the stored schema with want, if not nil, and takes it over. The client calls
// it once, before it sends anything else. Errors: ErrSchemaMismatch, and those of model.ValidateStored.
func (w *Watcher) CheckSchema(want *model.Schema) error {
	m, _ := w.Snapshot()
	if m.Schema == nil {
		return fmt.Errorf("percolator: %w: the instance %s has no schema; percolator schema apply, or CreateSchema, stores one", model.ErrSchemaMismatch, w.Config.Instance)
	}
	if want != nil {
		if err := model.ValidateStored(want); err != nil {
			return err
		}
		want, err := model.Beside(m.Schema, want)
		if err != nil {
			return err
		}
		if !model.SameButForJournal(m.Schema, want) {
			return fmt.Errorf("percolator: %w: Config.Schema is not the stored schema (version %d): %s; make them equal, or leave Config.Schema nil",
				model.ErrSchemaMismatch, m.Version, drift(m.Schema, want))
		}
	}
	w.Catalog.Store(model.NewCatalog(m.Schema))
	// The timing comes before any other request, and never changes.
	w.Store.Timing = model.EffectiveTiming(m.Schema.Timing)
	return nil
}

// adopt takes over a newer schema that another client has stored.
func (w *Watcher) adopt(old, now State) {
	if now.Schema != nil {
		w.Catalog.Store(model.NewCatalog(now.Schema))
		w.Config.Logger.Info("schema changed", "from", old.Version, "to", now.Version)
	}
}

// HasWeak reports whether any table has weak columns.
func (w *Watcher) HasWeak() bool {
	for _, t := range w.Catalog.Load().Schema.Tables {
		if len(t.Weak) > 0 {
			return true
		}
	}
	return false
}

// KnowsTable reports whether the schema has a table. It reads the stored schema before it says no:
// the table may be new.
func (w *Watcher) KnowsTable(ctx context.Context, table string) bool {
	known, err := w.HasTable(ctx, table)
	return known && err == nil
}

// HasTable is KnowsTable with the reason for a no.
func (w *Watcher) HasTable(ctx context.Context, table string) (bool, error) {
	if _, ok := w.Catalog.Load().Tables[table]; ok {
		return true, nil
	}
	_, err := w.Refresh(ctx)
	_, ok := w.Catalog.Load().Tables[table]
	return ok, err
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
	if err := model.ValidateRow(cell); err != nil {
		return err
	}
	return info.CheckColumn(cell)
}

// CheckType refuses to read or write a declared column as another type (model.TableInfo.CheckType).
func (w *Watcher) CheckType(cell model.Cell, as model.Type) error {
	if info, ok := w.Catalog.Load().UserTable(cell.Table); ok {
		return info.CheckType(cell, as)
	}
	return nil // as CheckReadable tells
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
	return w.last, w.asOf
}

// StoreSafepoint announces the safepoint want, at the oracle's time now. A greater safepoint, or a
// hold at or below want, refuses it.
func (w *Watcher) StoreSafepoint(ctx context.Context, want, now tso.Timestamp) (refused bool, err error) {
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, metaSafe, store.MetaTimestamp, encodeTimestamp(want))
	mut.Put(layout.MetaFamily, metaNow, store.MetaTimestamp, encodeTimestamp(now))
	return w.Store.CheckAndMutate(ctx, model.MetaTable, RowKey, store.SafepointRefused(metaSafe, holdPrefix, want), nil, mut)
}
