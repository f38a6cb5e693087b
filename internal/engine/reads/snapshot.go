package reads

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ReadOptions say which snapshot to read.
type ReadOptions struct {
	AsOf      tso.Timestamp
	Set       bool // AsOf counts
	Staleness time.Duration
	Bounded   bool          // Staleness counts
	AtLeast   tso.Timestamp // 0: none
}

func (o ReadOptions) check() error {
	switch {
	case o.Staleness < 0:
		return fmt.Errorf("percolator: %w: MaxStaleness %v is negative", model.ErrInvalidArgument, o.Staleness)
	case o.AtLeast < 0:
		return fmt.Errorf("percolator: %w: AtLeast timestamp %d is negative", model.ErrInvalidArgument, o.AtLeast)
	case o.Set && (o.Staleness > 0 || o.AtLeast > 0):
		return fmt.Errorf("percolator: %w: MaxStaleness or AtLeast comes with AsOf", model.ErrInvalidArgument)
	}
	return nil
}

// staleness is how long ago the client may have asked for the timestamp.
func (o ReadOptions) staleness() time.Duration {
	if o.AtLeast > 0 && !o.Bounded {
		return math.MaxInt64
	}
	return o.Staleness
}

// Snapshot reads the state at one timestamp. It needs no Close and may be used concurrently.
type Snapshot struct {
	reader *Reader
	ts     tso.Timestamp
	cache  readCache
}

// NewSnapshot returns the snapshot at ts without checks.
func NewSnapshot(r *Reader, ts tso.Timestamp) *Snapshot { return &Snapshot{reader: r, ts: ts} }

// ForTxn returns the snapshot of a transaction, which remembers what it was asked for (Asked)
// beyond what it keeps.
func ForTxn(r *Reader, ts tso.Timestamp) *Snapshot {
	s := NewSnapshot(r, ts)
	s.cache.digests = new(digests)
	return s
}

// Snapshot opens a snapshot of now, which asks the oracle, or of an earlier time.
func (r *Reader) Snapshot(ctx context.Context, o ReadOptions) (*Snapshot, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if ts, ok := r.clock.NewestWithin(o.staleness()); ok && ts >= o.AtLeast && !r.store.Closed.Load() {
		err := r.meta.CheckRemembered(ctx, ts)
		if err == nil {
			return NewSnapshot(r, ts), nil
		}
		if !errors.Is(err, model.ErrSnapshotTooOld) {
			return nil, err
		}
	}
	now, err := r.clock.Next(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case o.AtLeast > now:
		return nil, fmt.Errorf("percolator: %w: AtLeast %s is in the future of the oracle, which is at %s", model.ErrInvalidArgument, text.At(o.AtLeast), text.At(now))
	case !o.Set:
		return NewSnapshot(r, now), nil
	case o.AsOf <= 0:
		return nil, fmt.Errorf("percolator: %w: AsOf timestamp %d is before the first possible one", model.ErrInvalidArgument, o.AsOf)
	case o.AsOf > now:
		return nil, fmt.Errorf("percolator: %w: AsOf %s is in the future of the oracle, which is at %s", model.ErrInvalidArgument, text.At(o.AsOf), text.At(now))
	}
	if err := r.meta.CheckRead(ctx, o.AsOf); err != nil {
		return nil, err
	}
	return NewSnapshot(r, o.AsOf), nil
}

// CheckType refuses to use a declared column as another type.
func (s *Snapshot) CheckType(c model.Cell, as model.Type) error {
	return s.reader.meta.CheckType(c, as)
}

// CheckIndex refuses an index as one over a column that it does not cover.
func (s *Snapshot) CheckIndex(c model.Cell, index string) error {
	return s.reader.meta.CheckIndex(c, index)
}

// View calls f with a snapshot and returns f's error. It never conflicts.
func (r *Reader) View(ctx context.Context, f func(ctx context.Context, s *Snapshot) error, o ReadOptions) error {
	ctx, span := r.store.Trace.Start(ctx, "percolator.view", "")
	ended := telemetry.ErrPanicked // of f, whose panic goes on
	defer func() { span.End(ended) }()
	s, err := r.Snapshot(ctx, o)
	if err == nil {
		err = f(ctx, s)
	}
	ended = err
	return err
}

// StartTimestamp returns the timestamp at which the snapshot reads.
func (s *Snapshot) StartTimestamp() tso.Timestamp { return s.ts }

// Get reads one cell; ErrNotFound where there is no value.
func (s *Snapshot) Get(ctx context.Context, c model.Cell) ([]byte, error) {
	value, err := s.getOne(ctx, c)
	if err == nil && value == nil {
		err = catalog.CellError(model.ErrNotFound, c, "no value at %d", s.ts)
	}
	return value, err
}

// getOne is GetMulti for one cell, without the slices: it is the most frequent call of
// transactions.
func (s *Snapshot) getOne(ctx context.Context, c model.Cell) ([]byte, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := s.reader.meta.CheckReadable(c); err != nil {
		return nil, err
	}
	if kept, ok := s.cached(c); ok {
		return slices.Clone(kept.value), nil
	}
	ctx, span := s.reader.store.Trace.Start(ctx, "percolator.get", c.Table)
	started := time.Now()
	value, err := s.fetchOne(ctx, c)
	s.reader.tookRead(ctx, telemetry.OpGet, c.Table, started, err)
	span.End(err)
	return value, err
}

// fetchOne reads a cell that is not cached from the store.
func (s *Snapshot) fetchOne(ctx context.Context, c model.Cell) ([]byte, error) {
	ask := []model.Cell{c}
	if extra := s.predict(ask); len(extra) > 0 {
		found, err := s.read(ctx, ask, extra)
		if err != nil {
			return nil, err
		}
		return slices.Clone(found[0].Value), nil
	}
	res, row, err := s.reader.readCell(ctx, s.ts, c)
	if err != nil {
		return nil, err
	}
	s.cache.put(c, cachedCell{value: res.Value, expires: res.Record.Expires})
	if row.whole {
		s.keepRow(row)
	}
	return slices.Clone(res.Value), nil
}

// cached returns what the snapshot already knows of a cell.
func (s *Snapshot) cached(c model.Cell) (kept cachedCell, ok bool) {
	kept, ok = s.cache.take(c)
	if kept.prefetched {
		s.reader.store.Count.PrefetchUsed.Add(1)
		s.reader.predict.hit(&s.cache, c)
	}
	return kept, ok
}

// Asked returns what the snapshot remembers of a cell that it was asked for. Errors: ErrTooLarge if
// it may have forgotten that.
func (s *Snapshot) Asked(c model.Cell) (Remembered, error) { return s.cache.asked(c) }

// predict tells the predictor what the caller asks for, and returns what it expects next.
func (s *Snapshot) predict(ask []model.Cell) []model.Cell {
	if s.reader.cfg.DisablePrefetch {
		return nil
	}
	return s.reader.predict.expect(&s.cache, ask)
}

// GetMulti reads cells, nil where there is no value.
func (s *Snapshot) GetMulti(ctx context.Context, cells ...model.Cell) ([][]byte, error) {
	return s.getMulti(ctx, cells, nil)
}

// GetExpiring is GetMulti, and also returns when the values expire; 0: they do not.
func (s *Snapshot) GetExpiring(ctx context.Context, cells []model.Cell) (values [][]byte, expires []tso.Timestamp, err error) {
	expires = make([]tso.Timestamp, len(cells))
	values, err = s.getMulti(ctx, cells, expires)
	return values, expires, err
}

// getMulti is GetMulti; expires, if not nil, is to be filled.
func (s *Snapshot) getMulti(ctx context.Context, cells []model.Cell, expires []tso.Timestamp) ([][]byte, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	out := make([][]byte, len(cells))
	found := func(i int, value []byte, at tso.Timestamp) {
		if out[i] = slices.Clone(value); value != nil && expires != nil {
			expires[i] = at
		}
	}
	var ask []model.Cell
	var at []int
	for i, c := range cells {
		if err := s.reader.meta.CheckReadable(c); err != nil {
			return nil, err
		}
		if kept, ok := s.cached(c); ok {
			found(i, kept.value, kept.expires)
			continue
		}
		ask, at = append(ask, c), append(at, i)
	}
	if len(ask) == 0 {
		return out, nil
	}
	ctx, span := s.reader.store.Trace.Start(ctx, "percolator.get_multi", tableOf(ask))
	span.Count("percolator.cells", len(ask))
	started := time.Now()
	results, err := s.read(ctx, ask, s.predict(ask))
	s.reader.tookRead(ctx, telemetry.OpGetMulti, tableOf(ask), started, err)
	span.End(err)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		found(i, results[j].Value, results[j].Record.Expires)
	}
	return out, nil
}

// tableOf is the table of the cells, or "" if they are of several.
func tableOf(cells []model.Cell) string {
	for _, c := range cells {
		if c.Table != cells[0].Table {
			return ""
		}
	}
	return cells[0].Table
}

// tookRead records the duration and outcome of a read.
func (r *Reader) tookRead(ctx context.Context, op telemetry.Operation, table string, started time.Time, err error) {
	d := time.Since(started)
	r.store.Count.Latency[op].Add(d)
	r.store.Metrics.Read(ctx, op, table, d, err)
}

// read reads ask, which is not cached, and extra, which the predictor expects next. The caller must
// not modify the values.
func (s *Snapshot) read(ctx context.Context, ask, extra []model.Cell) ([]CellResult, error) {
	results, rows, err := s.reader.readCellsAndRows(ctx, s.ts, append(slices.Clip(ask), extra...), len(ask))
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		if r.Skipped {
			continue // a prefetched cell that was locked: the caller did not ask for it
		}
		if s.cache.put(r.Cell, cachedCell{r.Value, r.Record.Expires, i >= len(ask)}) && i >= len(ask) {
			s.reader.store.Count.Prefetched.Add(1)
		}
	}
	for _, a := range rows {
		s.keepRow(a)
	}
	return results[:len(ask)], nil
}

// keepRow caches the columns of a row that was read whole. Once it knows them all, every other
// column is known to be absent. A cell whose value would take another request leaves that open.
func (s *Snapshot) keepRow(a rowAnswer) {
	known := true
	for column, v := range a.seen {
		c := a.row
		if c.Column = column; s.cache.has(c) {
			continue
		}
		switch seen := v.At(s.ts, a.window); seen.State {
		case layout.ViewValue:
			kept := s.cache.put(c, cachedCell{NonNil(seen.Value), seen.Record.Expires, true})
			if kept {
				s.reader.store.Count.Prefetched.Add(1)
			}
			known = kept && known
		case layout.ViewAbsent:
			known = s.cache.put(c, cachedCell{prefetched: true}) && known
		default:
			known = false
		}
	}
	if known {
		s.cache.close(a.row)
	}
}
