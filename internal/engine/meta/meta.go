// Package meta keeps what all clients of an instance must agree on, in one row of percolator_meta:
// the schema, the safepoint, the GC watermark, holds, the states of indexes, the fence of a restore
// or a repair, the gaps that repairs leave, and the fences of tables into which something is
// imported. It stands on store and timestamps. The layers above ask it before they trust what they
// have read.
package meta

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
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
	Safepoint tso.Timestamp      // reads at or below it are refused
	Watermark tso.Timestamp      // collection has removed nothing newer
	Now       tso.Timestamp      // when the safepoint was announced
	Holds     []model.Hold       // oldest snapshot first
	Indexes   IndexStates        // of indexes that were added to existing tables
	Fence     *Fence             // nil: no restore or repair is unfinished
	Imports   map[string]Import  // by table
	Gaps      []Gap              // snapshots that repairs have removed
	Journal   model.JournalState // of the journal, if the schema does not disable it
	Dropped   Drops              // tables of Bigtable that the schema has had
	Lives     Lives              // of what has the name of something that was dropped
	Timing    model.Timing       // of the first schema, where that leaves it open

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
	slices.SortFunc(m.Holds, func(a, b model.Hold) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
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
		m.Schema, err = catalog.DecodeSchema(value)
	case column == ColumnIndexes:
		err = json.Unmarshal(value, &m.Indexes)
	case column == ColumnFence:
		m.Fence, err = decodeFence(value)
	case column == columnJournal:
		err = json.Unmarshal(value, &m.Journal)
	case column == columnDropped:
		err = json.Unmarshal(value, &m.Dropped)
	case column == columnLives:
		err = json.Unmarshal(value, &m.Lives)
	case column == columnTiming:
		m.Timing, err = decodeTiming(value)
	case column == columnGaps:
		err = json.Unmarshal(value, &m.Gaps)
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
		var h model.Hold
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

// roomFor refuses a value of a column that is too long. One that an earlier version has stored may
// be replaced by one that is no longer.
func (m State) roomFor(column string, value []byte, remedy string) error {
	if len(value) <= max(maxCellBytes, len(m.value(column))) {
		return nil
	}
	return fmt.Errorf("percolator: %w: column %q of %s would have %d bytes, more than %d, and every client reads it: %s", model.ErrTooLarge, column, model.MetaTable, len(value), maxCellBytes, remedy)
}

// fewer is the remedy for a schema that is too long.
const fewer = "declare fewer tables, columns and indexes, or shorter names"

// replace stores the schema of next, and the states of its indexes and its journal, as the next
// version, if m is still what is stored. applied may be false although an attempt whose answer was
// lost succeeded.
func (m State) replace(ctx context.Context, s *store.Store, next State) (applied bool, err error) {
	mut := store.NewMutation(6)
	if next.Schema != m.Schema {
		mut.Put(layout.MetaFamily, metaSchema, store.MetaTimestamp, catalog.EncodeSchema(next.Schema))
	}
	if next.Journal != m.Journal {
		mut.Put(layout.MetaFamily, columnJournal, store.MetaTimestamp, layout.JSON(next.Journal))
	}
	if !maps.Equal(next.Dropped, m.Dropped) {
		mut.Put(layout.MetaFamily, columnDropped, store.MetaTimestamp, layout.JSON(next.Dropped))
	}
	if !maps.Equal(next.Lives, m.Lives) {
		mut.Put(layout.MetaFamily, columnLives, store.MetaTimestamp, layout.JSON(next.Lives))
	}
	mut.Put(layout.MetaFamily, ColumnIndexes, store.MetaTimestamp, next.Indexes.Encode())
	mut.Put(layout.MetaFamily, ColumnVersion, store.MetaTimestamp, binary.BigEndian.AppendUint64(nil, m.Version+1))
	for _, c := range mut.Changes() {
		if c.Column == columnDropped { // BeginDrop had room: what has started must end
			continue
		}
		if err := m.roomFor(c.Column, c.Value, fewer); err != nil {
			return false, err
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
	if old.Schema != nil && string(catalog.EncodeSchema(old.Schema)) == string(catalog.EncodeSchema(next)) {
		return nil
	}
	applied, err := old.replace(ctx, s, State{Schema: next, Indexes: old.Indexes.after(old.Schema, next), Journal: journalAfter(old.Journal, old.Schema, next), Dropped: old.Dropped.without(next), Lives: old.Lives})
	if err == nil && applied {
		return nil
	}
	// Another client was faster, or the answer was lost: what counts is what is stored now.
	now, rerr := Read(ctx, s)
	switch {
	case rerr != nil:
		return errors.Join(err, rerr)
	case now.Schema != nil && string(catalog.EncodeSchema(now.Schema)) == string(catalog.EncodeSchema(next)):
		return nil
	case err != nil:
		return fmt.Errorf("percolator: storing the schema: %w", err)
	default:
		return fmt.Errorf("percolator: %w: another client stored another schema at the same time; run it again", model.ErrSchemaMismatch)
	}
}
