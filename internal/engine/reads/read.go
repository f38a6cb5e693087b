// Package reads answers what a snapshot sees, with as few requests as it can. It stands on locks,
// which gets it past the locks that it meets, and on meta, which says what may still be read;
// commit and the admin tools stand on it.
package reads

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Reading a cell at ts (lines 8–24 of Figure 6 of the paper) takes one request. It returns the
// newest lock, write record and data version at or below ts. A lock means that a transaction may be
// committing below ts, so the reader waits for it or resolves it (I15). Otherwise the newest record
// that changes the cell decides. The newest data is only a guess at the value: it counts when its
// timestamp is the record's start_ts.
//
// Rejected: the paper's own way, one read for each of the three families. Bigtable reads a row
// atomically, so one request is both cheaper and free of the races between them.

// Reader reads cells, rows and ranges at a timestamp.
type Reader struct {
	store *store.Store
	clock *timestamps.Source
	meta  *meta.Watcher
	locks *locks.Resolver
	cfg   store.Settings

	batch   *readBatcher
	predict *predictor
	policy  readPolicy
}

// New returns a reader over the given layers.
func New(s *store.Store, c *timestamps.Source, m *meta.Watcher, l *locks.Resolver, cfg store.Settings) *Reader {
	r := &Reader{store: s, clock: c, meta: m, locks: l, cfg: cfg, predict: &predictor{stats: map[readShape]*shapeStats{}}}
	r.batch = &readBatcher{reader: r, queues: map[queryKind]*readQueue{}, lone: make(chan struct{}, loneMost)}
	r.policy.first, r.policy.probe = firstTrial, probeRows
	return r
}

// readMost is what one ReadRows request names. Bigtable takes 512 KiB with the filter, which may
// have 20 KiB, and with what names the table.
var readMost = store.Load{Rows: store.RequestRows, Bytes: store.RequestKeyBytes}

// keyOverhead is more than Protocol Buffers add to a key.
const keyOverhead = 8

// loadOf is what a row adds to a request.
func loadOf(row string) store.Load { return store.Load{Rows: 1, Bytes: len(row) + keyOverhead} }

// CellResult is the answer for one cell. Value is nil where there is none.
type CellResult struct {
	Cell    model.Cell
	Value   []byte
	Record  layout.WriteRecord // the record that decided; zero: there was none
	Skipped bool               // locked or corrupt, and not required
	Err     error              // ErrCorrupt, where the caller does not get it otherwise
}

// ReadCells reads cells at ts. It waits for locks on the first required ones, and skips the others
// when they are locked.
func (r *Reader) ReadCells(ctx context.Context, ts tso.Timestamp, cells []model.Cell, required int) ([]CellResult, error) {
	out, _, err := r.readCellsAndRows(ctx, ts, cells, required)
	return out, err
}

// readCellsAndRows is ReadCells, and also returns the rows that it read whole.
func (r *Reader) readCellsAndRows(ctx context.Context, ts tso.Timestamp, cells []model.Cell, required int) ([]CellResult, []rowAnswer, error) {
	if r.store.Closed.Load() {
		return nil, nil, fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	out := make([]CellResult, len(cells))
	groups := r.groupReads(cells)
	finish := func(ctx context.Context, g *readGroup) error {
		if err := r.fetch(ctx, ts, g); err != nil {
			return err
		}
		u := r.unfinished(ts, g.table, Scanned{}, len(g.rows))
		u.whole = true
		for _, w := range g.rows {
			for i, col := range w.columns {
				at := w.index[i]
				out[at].Cell = cells[at]
				u.add(&out[at], w.answer.seen[col], w.answer.window, at < required)
			}
		}
		return u.finish(ctx)
	}
	if len(groups) == 1 {
		if err := finish(ctx, groups[0]); err != nil {
			return nil, nil, err
		}
	} else {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(r.cfg.MaxParallelism)
		for _, group := range groups {
			g.Go(func() error { return finish(gctx, group) })
		}
		if err := g.Wait(); err != nil {
			return nil, nil, retry.WithContext(ctx, err)
		}
	}
	var whole []rowAnswer
	tables := make([]string, len(groups))
	for i, g := range groups {
		tables[i] = g.table
		for _, w := range g.rows {
			if w.answer.whole {
				w.answer.row = model.Cell{Table: g.table, Row: w.row}
				whole = append(whole, w.answer)
			}
		}
	}
	return out, whole, r.meta.CheckRead(ctx, ts, tables...)
}

// readCell is readCellsAndRows for one required cell.
func (r *Reader) readCell(ctx context.Context, ts tso.Timestamp, cell model.Cell) (CellResult, rowAnswer, error) {
	if r.store.Closed.Load() {
		return CellResult{}, rowAnswer{}, fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	a, err := r.fetchOne(ctx, r.query(ts, cell.Table, []string{cell.Column}, false), cell.Row)
	if err != nil {
		return CellResult{}, rowAnswer{}, err
	}
	a.row = model.Cell{Table: cell.Table, Row: cell.Row}
	res, err := r.finishRead(ctx, ts, cell, a.seen[cell.Column], a.window)
	if err != nil {
		return CellResult{}, rowAnswer{}, err
	}
	return res, a, r.meta.CheckRead(ctx, ts, cell.Table)
}

// readGroup is rows of one table from which the caller wants the same columns: one request reads
// them.
type readGroup struct {
	table   string
	columns []string
	rows    []*rowWants
	load    store.Load
}

type rowWants struct {
	row     string
	columns []string
	index   []int // positions in the caller's list
	answer  rowAnswer
}

// groupReads groups cells by row, and rows by their set of columns, and cuts groups to what one
// request may name. With DisablePrefetch each column makes a request of its own, with
// DisableBatching each row.
func (r *Reader) groupReads(cells []model.Cell) []*readGroup {
	if len(cells) == 1 {
		one := cells[0]
		return []*readGroup{{table: one.Table, columns: []string{one.Column}, rows: []*rowWants{{row: one.Row, columns: []string{one.Column}, index: []int{0}}}}}
	}
	most := readMost
	if r.cfg.DisableBatching {
		most.Rows = 1
	}
	type rowKey struct{ table, row, column string }
	byRow := map[rowKey]*rowWants{}
	var order []rowKey
	for i, cell := range cells {
		k := rowKey{table: cell.Table, row: cell.Row}
		if r.cfg.DisablePrefetch {
			k.column = cell.Column
		}
		w := byRow[k]
		if w == nil {
			w = &rowWants{row: cell.Row}
			byRow[k] = w
			order = append(order, k)
		}
		w.columns, w.index = append(w.columns, cell.Column), append(w.index, i)
	}
	var groups []*readGroup
	open := map[string]*readGroup{}
	for _, k := range order {
		for _, w := range byRow[k].split() {
			columns := slices.Compact(slices.Sorted(slices.Values(w.columns)))
			name := k.table + "\x00" + strings.Join(columns, "\x00")
			g := open[name]
			load := loadOf(w.row)
			if g == nil || g.load.Plus(load).Exceeds(most) {
				g = &readGroup{table: k.table, columns: columns}
				open[name] = g
				groups = append(groups, g)
			}
			g.rows, g.load = append(g.rows, w), g.load.Plus(load)
		}
	}
	return groups
}

// split cuts the wanted columns of one row to what one filter holds.
func (w *rowWants) split() []*rowWants {
	var out []*rowWants
	size := 0
	for i, col := range w.columns {
		n := store.PatternBytes(col)
		if len(out) == 0 || size+n > model.MaxFilterBytes {
			out = append(out, &rowWants{row: w.row})
			size = 0
		}
		last := out[len(out)-1]
		last.columns, last.index = append(last.columns, col), append(last.index, w.index[i])
		size += n
	}
	return out
}

// query is the query that the read policy of the table chooses for columns of one row, or of
// several.
func (r *Reader) query(ts tso.Timestamp, table string, columns []string, several bool) rowQuery {
	policy := r.policy.of(table)
	q := rowQuery{table: table, columns: columns, ts: ts, window: 1, changes: policy.changes()}
	if !r.cfg.DisablePrefetch {
		q.asks = policy.ask(several)
	}
	return q
}

// fetchOne sends the request for one row, or joins the batch of other goroutines.
func (r *Reader) fetchOne(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	if r.cfg.DisableBatching || q.asks == probe {
		return r.readOne(ctx, q, row)
	}
	return r.batch.read(ctx, q, row)
}

// fetch reads a group and leaves each answer with its row.
func (r *Reader) fetch(ctx context.Context, ts tso.Timestamp, g *readGroup) (err error) {
	q := r.query(ts, g.table, g.columns, len(g.rows) > 1)
	if len(g.rows) == 1 {
		g.rows[0].answer, err = r.fetchOne(ctx, q, g.rows[0].row)
		return err
	}
	keys := ordered.Map(g.rows, func(w *rowWants) string { return w.row })
	answers, err := r.readMany(ctx, q, keys)
	if err != nil && r.byNameAfter(ctx, q, err) {
		answers, err = r.readMany(ctx, q.byName(), keys)
	}
	if err != nil {
		return err
	}
	for i, w := range g.rows {
		if w.answer = answers[i]; w.answer.cut {
			if w.answer, err = r.readOne(ctx, q.byName(), w.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishRead turns what a request saw of one cell into the answer, with further requests where it
// must: past locks, past records that change nothing, and for data that the guess missed.
func (r *Reader) finishRead(ctx context.Context, ts tso.Timestamp, cell model.Cell, v *layout.Versions, window int) (CellResult, error) {
	out := CellResult{Cell: cell}
	if !settle(&out, v, ts, window, true) {
		return r.finishOne(ctx, ts, cell, v, window)
	}
	return out, out.Err
}

// finishOne is finishRead where a further request is needed.
func (r *Reader) finishOne(ctx context.Context, ts tso.Timestamp, cell model.Cell, v *layout.Versions, window int) (CellResult, error) {
	u, out := r.unfinished(ts, cell.Table, Scanned{}, 1), CellResult{Cell: cell}
	u.add(&out, v, window, true)
	if err := u.finish(ctx); err != nil {
		return CellResult{}, err
	}
	return out, out.Err
}

// readData reads exactly the version that a record names.
func (r *Reader) readData(ctx context.Context, ts tso.Timestamp, cell model.Cell, w layout.WriteRecord) (CellResult, error) {
	rv, err := r.store.ReadVersions(ctx, cell.Table, cell.Row, store.Data(store.Version{Column: cell.Column, StartTS: w.StartTS}))
	if err != nil {
		return CellResult{}, err
	}
	if v := rv[cell.Column]; v != nil && v.Corrupt != nil {
		return CellResult{}, v.Corrupt
	} else if v != nil {
		return CellResult{Cell: cell, Record: w, Value: NonNil(v.Data[0].Value)}, nil
	}
	// The data is gone. Below the GC watermark this is the trace of a phase-two write that landed
	// after collection. A snapshot that collection may have passed is refused first.
	m, err := r.meta.Refresh(ctx)
	if err != nil {
		return CellResult{}, err
	}
	if err := r.meta.CheckRead(ctx, ts, cell.Table); err != nil {
		return CellResult{}, err
	}
	if w.CommitTS <= m.Watermark {
		r.store.Count.LateRecords.Add(1)
		return CellResult{Cell: cell}, nil
	}
	return CellResult{}, catalog.CellError(model.ErrCorrupt, cell, "the put record at %d names data at %d, which does not exist", w.CommitTS, w.StartTS)
}

// NonNil keeps an empty value apart from absence, which is nil.
func NonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
