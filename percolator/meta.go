package percolator

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// The meta row carries what every client must know: the schema and how far collection has come. All cells have one
// fixed timestamp, so that a new value replaces the old one.
const (
	metaFamily   = "meta"
	oracleFamily = tso.BigtableFamily
	metaRow      = "meta"
	metaVersion  = "version"
	metaSchema   = "schema"
	metaSafe     = "safepoint"
	metaMark     = "mark"

	metaTimestamp = bigtable.Timestamp(1000)
)

// meta is the meta row as it was read.
type meta struct {
	schema    *Schema
	version   uint64
	safepoint tso.Timestamp // reads at or below it are refused
	mark      tso.Timestamp // nothing newer has been collected
	now       tso.Timestamp // when the safepoint was announced
	holds     []Hold        // oldest snapshot first
	indexes   indexStates   // of indexes that were added to existing tables
	restore   *restoreCell  // nil: no restore is unfinished
}

func readMeta(ctx context.Context, s *store) (meta, error) {
	row, err := s.readRow(ctx, metaTable, metaRow, bigtable.LatestNFilter(1))
	if err != nil {
		return meta{}, fmt.Errorf("percolator: reading %s (does the instance have a schema? CreateSchema makes it): %w", metaTable, err)
	}
	var m meta
	for _, item := range row[metaFamily] {
		if err := m.decode(item.Column[len(metaFamily)+1:], item.Value); err != nil {
			return meta{}, fmt.Errorf("percolator: %w: column %q of %s cannot be read", ErrCorrupt, item.Column, metaTable)
		}
	}
	slices.SortFunc(m.holds, func(a, b Hold) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return m, nil
}

// decode takes one column of the meta row; those of later versions are passed over.
func (m *meta) decode(column string, value []byte) (err error) {
	switch {
	case column == metaSchema:
		m.schema, err = decodeSchema(value)
	case column == metaIndexes:
		m.indexes, err = decodeIndexStates(value)
	case column == metaRestore:
		m.restore, err = decodeRestoreCell(value)
	case column == metaVersion:
		m.version, err = decodeUint64(value)
	case column == metaSafe:
		m.safepoint, err = decodeTimestamp(value)
	case column == metaMark:
		m.mark, err = decodeTimestamp(value)
	case column == metaNow:
		m.now, err = decodeTimestamp(value)
	case strings.HasPrefix(column, holdPrefix):
		var h Hold
		h, err = decodeHold(column, value)
		m.holds = append(m.holds, h)
	}
	return err
}

func decodeTimestamp(b []byte) (tso.Timestamp, error) {
	v, err := decodeUint64(b)
	return tso.Timestamp(v), err
}

func decodeUint64(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, ErrCorrupt
	}
	return binary.BigEndian.Uint64(b), nil
}

// storeSchema replaces the stored schema, unless somebody else has replaced it since old was read.
func storeSchema(ctx context.Context, s *store, old meta, next *Schema) error {
	if old.schema != nil && string(old.schema.encode()) == string(next.encode()) {
		return nil
	}
	mut := bigtable.NewMutation()
	mut.Set(metaFamily, metaSchema, metaTimestamp, next.encode())
	mut.Set(metaFamily, metaIndexes, metaTimestamp, old.indexes.after(old.schema, next).encode())
	mut.Set(metaFamily, metaVersion, metaTimestamp, binary.BigEndian.AppendUint64(nil, old.version+1))
	version := bigtable.ColumnRangeFilter(metaFamily, metaVersion, metaVersion+"\x00")
	var applied bool
	var err error
	if old.schema == nil {
		applied, err = s.checkAndMutate(ctx, metaTable, metaRow, version, nil, mut)
		applied = !applied
	} else {
		v := binary.BigEndian.AppendUint64(nil, old.version)
		applied, err = s.checkAndMutate(ctx, metaTable, metaRow,
			bigtable.ChainFilters(version, bigtable.ValueRangeFilter(v, append(v[:8:8], 0))), mut, nil)
	}
	if err == nil && applied {
		return nil
	}
	// Somebody was faster, or the answer was lost: what counts is what is stored now.
	now, rerr := readMeta(ctx, s)
	switch {
	case rerr != nil:
		return errors.Join(err, rerr)
	case now.schema != nil && string(now.schema.encode()) == string(next.encode()):
		return nil
	case err != nil:
		return fmt.Errorf("percolator: storing the schema: %w", err)
	default:
		return fmt.Errorf("percolator: %w: somebody else stored another schema at the same time; run it again", ErrSchemaMismatch)
	}
}

// metaWatcher keeps a client's knowledge of the meta row fresh. Ages are measured by the monotonic clock, from before
// the request that read the row was sent.
type metaWatcher struct {
	store   *store
	version func(old, now meta) // called when the schema version changed

	mu   sync.RWMutex
	last meta
	asOf time.Time
}

// refresh reads the meta row now.
func (w *metaWatcher) refresh(ctx context.Context) (meta, error) {
	asked := time.Now()
	m, err := readMeta(ctx, w.store)
	if err != nil {
		return m, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if asked.Before(w.asOf) {
		return m, nil
	}
	old := w.last
	w.last, w.asOf = m, asked
	if w.version != nil && old.version != m.version && old.version != 0 {
		w.version(old, m)
	}
	return m, nil
}

// run refreshes until ctx ends. A failed read is tried again a second later: knowledge only grows old.
func (w *metaWatcher) run(ctx context.Context) {
	every := w.store.timing.refresh()
	wait := every
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = every
		if _, err := w.refresh(ctx); err != nil {
			wait = min(time.Second, every)
		}
	}
}

// known returns the newest knowledge, asking the store when it has grown too old.
func (w *metaWatcher) known(ctx context.Context) (meta, error) {
	w.mu.RLock()
	m, fresh := w.last, time.Since(w.asOf) < w.store.timing.MetaMaxAge
	w.mu.RUnlock()
	if fresh {
		return m, nil
	}
	m, err := w.refresh(ctx)
	if err != nil {
		return m, fmt.Errorf("percolator: %w: the safepoint has not been readable for %v: %w", ErrSnapshotTooOld, w.store.timing.MetaMaxAge, err)
	}
	return m, nil
}

// held reports whether, as far as is known, a hold keeps what a snapshot at ts reads.
func (w *metaWatcher) held(ts, now tso.Timestamp) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.ContainsFunc(w.last.holds, func(h Hold) bool { return h.Timestamp <= ts && h.Expires > now })
}

// checkRead refuses what was read at ts when it may have been collected (I16), or while a restore is unfinished (restore.go). It is asked
// after the data arrived, and before a commit.
func (w *metaWatcher) checkRead(ctx context.Context, ts tso.Timestamp) error {
	m, err := w.known(ctx)
	if err != nil {
		return err
	}
	if m.restore != nil {
		return m.restore.refusal()
	}
	if ts <= m.safepoint {
		return fmt.Errorf("percolator: %w: the snapshot at %d is at or below the safepoint %d", ErrSnapshotTooOld, ts, m.safepoint)
	}
	return nil
}
