package percolator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Reader is what *Txn and *Snapshot share. Reads answer from one snapshot, however long they take.
type Reader interface {
	// StartTimestamp is the snapshot that is read.
	StartTimestamp() tso.Timestamp
	// Get returns a cell's value, ErrNotFound where there is none. An empty value is not absence.
	Get(ctx context.Context, c Cell) ([]byte, error)
	// GetMulti returns the values in order, nil where there is none.
	GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error)
	// Scan streams entries in row order, then column order; no columns means all.
	Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error]
	// ScanIndex streams the indexed cells whose value lies in values, in the order of values, then rows.
	ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error]
}

// Snapshot reads the state at one timestamp. It needs no Close and may be used concurrently.
type Snapshot struct {
	c     *Client
	ts    tso.Timestamp
	cache readCache
}

func newSnapshot(c *Client, ts tso.Timestamp) *Snapshot { return &Snapshot{c: c, ts: ts} }

// Snapshot opens a snapshot: of now, which asks the oracle, or of an earlier time (AsOf, AsOfTimestamp, MaxStaleness).
func (c *Client) Snapshot(ctx context.Context, opts ...ReadOption) (*Snapshot, error) {
	var o readOptions
	for _, opt := range opts {
		opt.applyRead(&o)
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if o.staleness < 0 || (o.staleness > 0 && o.set) {
		return nil, fmt.Errorf("percolator: %w: MaxStaleness %v is negative or comes with AsOf", ErrInvalidArgument, o.staleness)
	}
	if ts, ok := c.newest.within(o.staleness); ok && !c.closed.Load() {
		return newSnapshot(c, ts), nil
	}
	now, err := c.next(ctx)
	if err != nil {
		return nil, err
	}
	if !o.set {
		return newSnapshot(c, now), nil
	}
	switch {
	case o.asOf <= 0:
		return nil, fmt.Errorf("percolator: %w: AsOf timestamp %d is before the first possible one", ErrInvalidArgument, o.asOf)
	case o.asOf > now:
		return nil, fmt.Errorf("percolator: %w: AsOf timestamp %d is in the future of the oracle (%d)", ErrInvalidArgument, o.asOf, now)
	case now.Sub(o.asOf) > c.cfg.Retention && !c.meta.held(o.asOf, now):
		return nil, fmt.Errorf("percolator: %w: AsOf %v is beyond the retention of %v", ErrSnapshotTooOld, o.asOf.Time(), c.cfg.Retention)
	}
	if err := c.meta.checkRead(ctx, o.asOf); err != nil {
		return nil, err
	}
	return newSnapshot(c, o.asOf), nil
}

// View calls f with a snapshot and returns f's error. It never conflicts.
func (c *Client) View(ctx context.Context, f func(ctx context.Context, s *Snapshot) error, opts ...ReadOption) error {
	ctx, span := c.trace.start(ctx, "percolator.view", "")
	ended := errPanicked // of f, whose panic goes on
	defer func() { span.end(ended) }()
	s, err := c.Snapshot(ctx, opts...)
	if err == nil {
		err = f(ctx, s)
	}
	ended = err
	return err
}

// StartTimestamp is the timestamp of the snapshot.
func (s *Snapshot) StartTimestamp() tso.Timestamp { return s.ts }

// Get returns the value of c in the snapshot; ErrNotFound if there is none.
func (s *Snapshot) Get(ctx context.Context, c Cell) ([]byte, error) {
	value, err := s.getOne(ctx, c)
	if err == nil && value == nil {
		err = cellErr(ErrNotFound, c, "no value at %d", s.ts)
	}
	return value, err
}

// getOne is GetMulti for one cell, without the lists: it is what transactions do most.
func (s *Snapshot) getOne(ctx context.Context, c Cell) ([]byte, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if err := s.c.checkReadable(c); err != nil {
		return nil, err
	}
	if v, ok := s.cached(c); ok {
		return slices.Clone(v), nil
	}
	ctx, span := s.c.trace.start(ctx, "percolator.get", c.Table)
	begun := time.Now()
	value, err := s.fetchOne(ctx, c)
	s.c.tookRead(ctx, opGet, c.Table, begun, err)
	span.end(err)
	return value, err
}

// fetchOne asks the store.
func (s *Snapshot) fetchOne(ctx context.Context, c Cell) ([]byte, error) {
	ask := []Cell{c}
	if extra := s.predict(ask); len(extra) > 0 {
		found, err := s.read(ctx, ask, extra)
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	res, row, err := s.c.readCell(ctx, s.ts, c)
	if err != nil {
		return nil, err
	}
	s.cache.put(c, res.value, false)
	if row.whole {
		s.keepRow(row)
	}
	return slices.Clone(res.value), nil
}

// cached returns what is known of a cell already.
func (s *Snapshot) cached(c Cell) (value []byte, ok bool) {
	value, ok, prefetched := s.cache.take(c)
	if prefetched {
		s.c.count.prefetchUsed.Add(1)
		s.c.predict.hit(&s.cache, c)
	}
	return value, ok
}

// predict tells the predictor what is asked for, and returns what it expects next.
func (s *Snapshot) predict(ask []Cell) []Cell {
	if s.c.cfg.DisablePrefetch {
		return nil
	}
	return s.c.predict.expect(&s.cache, ask)
}

// GetMulti returns the values of the cells in order, nil where there is none.
func (s *Snapshot) GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	out := make([][]byte, len(cells))
	var ask []Cell
	var at []int
	for i, c := range cells {
		if err := s.c.checkReadable(c); err != nil {
			return nil, err
		}
		if v, ok := s.cached(c); ok {
			out[i] = slices.Clone(v)
			continue
		}
		ask, at = append(ask, c), append(at, i)
	}
	if len(ask) == 0 {
		return out, nil
	}
	ctx, span := s.c.trace.start(ctx, "percolator.get_multi", tableOf(ask))
	span.count("percolator.cells", len(ask))
	begun := time.Now()
	found, err := s.read(ctx, ask, s.predict(ask))
	s.c.tookRead(ctx, opGetMulti, tableOf(ask), begun, err)
	span.end(err)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		out[i] = found[j]
	}
	return out, nil
}

// tableOf is the table of the cells, "" if there are several.
func tableOf(cells []Cell) string {
	for _, c := range cells {
		if c.Table != cells[0].Table {
			return ""
		}
	}
	return cells[0].Table
}

// tookRead measures a read.
func (c *Client) tookRead(ctx context.Context, op operation, table string, begun time.Time, err error) {
	d := time.Since(begun)
	c.count.latency[op].add(d)
	c.store.metrics.read(ctx, op, table, d, err)
}

// read asks for cells that are not cached, and for those that the predictor expects next.
func (s *Snapshot) read(ctx context.Context, ask, extra []Cell) ([][]byte, error) {
	results, rows, err := s.c.readCellsAndRows(ctx, s.ts, append(slices.Clip(ask), extra...), len(ask))
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(ask))
	for i, r := range results {
		if r.skipped {
			continue // a prefetched cell that was locked: nobody asked for it
		}
		if s.cache.put(r.cell, r.value, i >= len(ask)) && i >= len(ask) {
			s.c.count.prefetched.Add(1)
		}
		if i < len(ask) {
			out[i] = slices.Clone(r.value)
		}
	}
	for _, a := range rows {
		s.keepRow(a)
	}
	return out, nil
}

// keepRow caches what else a row says that was read whole. If that is all there is, every other column is known to be absent; a cell whose
// state would take another request leaves that open.
func (s *Snapshot) keepRow(a rowAnswer) {
	known := true
	for column, v := range a.seen {
		c := a.row
		if c.Column = column; s.cache.has(c) {
			continue
		}
		switch seen := v.at(s.ts, a.window); seen.state {
		case viewValue:
			kept := s.cache.put(c, nonNil(seen.value), true)
			if kept {
				s.c.count.prefetched.Add(1)
			}
			known = kept && known
		case viewAbsent:
			known = s.cache.put(c, nil, true) && known
		default:
			known = false
		}
	}
	if known {
		s.cache.close(a.row)
	}
}

// checkReadable validates the name of a cell that is to be read.
func (c *Client) checkReadable(cell Cell) error {
	if _, ok := c.catalog.Load().user(cell.Table); !ok {
		return unknownTable(cell.Table)
	}
	if err := validateRow(cell); err != nil {
		return err
	}
	return validateColumn(cell)
}

// readCacheBytes bounds what one snapshot keeps of what it has read.
const readCacheBytes = 32 << 20

// readCache holds what a snapshot has read, absence included: a snapshot cannot change.
type readCache struct {
	mu    sync.Mutex
	cells map[Cell]*cachedCell
	rows  map[Cell]readShape // what was asked of a row first, keyed by the cell without its column
	known map[Cell]bool      // rows of which all columns that have a value are in cells; keyed likewise
	bytes int
}

// cachedCell is one cell's value, nil for absence.
type cachedCell struct {
	value      []byte
	prefetched bool // nobody has asked for it yet
}

func (rc *readCache) has(c Cell) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.cells[c] != nil
}

// take returns a cached value, and whether this is the first use of a prefetched one.
func (rc *readCache) take(c Cell) (value []byte, ok, prefetched bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	cc := rc.cells[c]
	if cc == nil {
		return nil, rc.known[Cell{Table: c.Table, Row: c.Row}], false
	}
	prefetched, cc.prefetched = cc.prefetched, false
	return cc.value, true, prefetched
}

// put keeps value, which nobody may modify afterwards, if there is room. What nobody has asked for may take half of it.
func (rc *readCache) put(c Cell, value []byte, prefetched bool) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.cells[c] != nil {
		return true // a snapshot cannot change
	}
	room := readCacheBytes
	if prefetched {
		room /= 2
	}
	if !rc.grow(len(c.Row)+len(c.Column)+len(value)+64, room) {
		return false
	}
	if rc.cells == nil {
		rc.cells = map[Cell]*cachedCell{}
	}
	rc.cells[c] = &cachedCell{value, prefetched}
	return true
}

// close says that a row has no other columns than those that are cached.
func (rc *readCache) close(row Cell) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if !rc.grow(len(row.Row)+64, readCacheBytes/2) {
		return
	}
	if rc.known == nil {
		rc.known = map[Cell]bool{}
	}
	rc.known[row] = true
}

// grow makes room for so many bytes, up to most in all; rc.mu is held.
func (rc *readCache) grow(bytes, most int) bool {
	if rc.bytes+bytes > most {
		return false
	}
	rc.bytes += bytes
	return true
}
