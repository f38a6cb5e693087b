package reads

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/timestamps"
	"github.com/gopercolator/percolator/tso"
)

// Reading a cell at ts (lines 8–24 of Figure 6 of the paper) takes one request: it returns the
// newest lock, write record and data version at or below ts. A lock means that a transaction may be
// committing below ts, so it is waited for or resolved (I15). Otherwise the newest record that
// changes the cell decides; the newest data is only a guess at its value, accepted when its
// timestamp is the record's start_ts.
//
// The alternative of the paper, one read for each of the three families, was rejected: Bigtable
// reads a row atomically, so one request is both cheaper and free of the races between them.

// Reader reads cells, rows and ranges at a timestamp.
type Reader struct {
	store *store.Store
	clock *timestamps.Source
	meta  *meta.Watcher
	locks *locks.Resolver
	cfg   model.Settings

	batch   *readBatcher
	predict *predictor
	policy  readPolicy
}

func New(s *store.Store, c *timestamps.Source, m *meta.Watcher, l *locks.Resolver, cfg model.Settings) *Reader {
	r := &Reader{store: s, clock: c, meta: m, locks: l, cfg: cfg, predict: newPredictor()}
	r.batch = newReadBatcher(r)
	r.policy.first, r.policy.probe = firstTrial, probeRows
	return r
}

// ReadRowsLimit is the most rows that one ReadRows request names.
const ReadRowsLimit = 512

// CellResult is the answer for one cell. value is nil where there is none.
type CellResult struct {
	Cell    model.Cell
	Value   []byte
	Record  layout.WriteRecord // the record that decided; zero if there was none
	Skipped bool               // locked or corrupt, and nobody insisted
}

// ReadCells reads cells at ts. The first required ones are waited for; the others are skipped when
// they are locked.
func (r *Reader) ReadCells(ctx context.Context, ts tso.Timestamp, cells []model.Cell, required int) ([]CellResult, error) {
	out, _, err := r.readCellsAndRows(ctx, ts, cells, required)
	return out, err
}

// readCellsAndRows also returns the rows that were read whole on the occasion.
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
		for _, w := range g.rows {
			for i, col := range w.columns {
				at := w.index[i]
				res, err := r.FinishRead(ctx, ts, model.Cell{Table: g.table, Row: w.row, Column: col}, w.answer.seen[col], w.answer.window, at < required)
				if err != nil {
					return err
				}
				out[at] = res
			}
		}
		return nil
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
			return nil, nil, model.WithContext(ctx, err)
		}
	}
	var whole []rowAnswer
	for _, g := range groups {
		for _, w := range g.rows {
			if w.answer.whole {
				w.answer.row = model.Cell{Table: g.table, Row: w.row}
				whole = append(whole, w.answer)
			}
		}
	}
	return out, whole, r.meta.CheckRead(ctx, ts)
}

// readCell is readCellsAndRows for one cell that is waited for.
func (r *Reader) readCell(ctx context.Context, ts tso.Timestamp, cell model.Cell) (CellResult, rowAnswer, error) {
	if r.store.Closed.Load() {
		return CellResult{}, rowAnswer{}, fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	a, err := r.fetchOne(ctx, r.query(ts, cell.Table, []string{cell.Column}, false), cell.Row)
	if err != nil {
		return CellResult{}, rowAnswer{}, err
	}
	a.row = model.Cell{Table: cell.Table, Row: cell.Row}
	res, err := r.FinishRead(ctx, ts, cell, a.seen[cell.Column], a.window, true)
	if err != nil {
		return CellResult{}, rowAnswer{}, err
	}
	return res, a, r.meta.CheckRead(ctx, ts)
}

// readGroup is rows of one table of which the same columns are wanted: they travel in one request.
type readGroup struct {
	table   string
	columns []string
	rows    []*rowWants
}

type rowWants struct {
	row     string
	columns []string
	index   []int // positions in the caller's list
	answer  rowAnswer
}

// groupReads groups cells by row, rows by their set of columns, and cuts groups to what one request
// may name. Without prefetch a column travels alone, without batching a row.
func (r *Reader) groupReads(cells []model.Cell) []*readGroup {
	if len(cells) == 1 {
		one := cells[0]
		return []*readGroup{{one.Table, []string{one.Column}, []*rowWants{{row: one.Row, columns: []string{one.Column}, index: []int{0}}}}}
	}
	most := ReadRowsLimit
	if r.cfg.DisableBatching {
		most = 1
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
			if g == nil || len(g.rows) == most {
				g = &readGroup{table: k.table, columns: columns}
				open[name] = g
				groups = append(groups, g)
			}
			g.rows = append(g.rows, w)
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

// query asks for columns of one row of a table, or of several, as they are read best.
func (r *Reader) query(ts tso.Timestamp, table string, columns []string, several bool) rowQuery {
	policy := r.policy.of(table)
	q := rowQuery{table: table, columns: columns, ts: ts, window: policy.window()}
	if !r.cfg.DisablePrefetch {
		q.whole, q.probes = policy.whole(several)
	}
	return q
}

// fetchOne sends the request for one row, or joins a batch with other goroutines' requests.
func (r *Reader) fetchOne(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	if r.cfg.DisableBatching || q.probes {
		return r.readOne(ctx, q, row)
	}
	return r.batch.read(ctx, q, row)
}

// fetch asks for a group, and leaves the answers with the rows.
func (r *Reader) fetch(ctx context.Context, ts tso.Timestamp, g *readGroup) (err error) {
	q := r.query(ts, g.table, g.columns, len(g.rows) > 1)
	if len(g.rows) == 1 {
		g.rows[0].answer, err = r.fetchOne(ctx, q, g.rows[0].row)
		return err
	}
	keys := make([]string, len(g.rows))
	for i, w := range g.rows {
		keys[i] = w.row
	}
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

// FinishRead turns what a request saw of one cell into the answer, with further requests where it
// must: past locks, past records that change nothing, and for data that the guess missed.
func (r *Reader) FinishRead(ctx context.Context, ts tso.Timestamp, cell model.Cell, v *layout.Versions, window int, wait bool) (_ CellResult, err error) {
	pause := locks.NewLockWait()
	var blocker layout.LockRecord // the lock that was last waited for
	var waited *locks.LockWatch
	defer func() { waited.End(err) }()
	for {
		seen := v.At(ts, window)
		switch seen.State {
		case layout.ViewAbsent:
			return CellResult{Cell: cell, Record: seen.Record}, nil
		case layout.ViewValue:
			return CellResult{Cell: cell, Record: seen.Record, Value: NonNil(seen.Value)}, nil
		case layout.ViewNeedData:
			return r.readData(ctx, ts, cell, seen.Record)
		case layout.ViewDeeper:
			r.policy.of(cell.Table).deeper()
			window *= 4
		case layout.ViewCorrupt:
			if !wait {
				return CellResult{Cell: cell, Skipped: true}, nil
			}
			return CellResult{}, v.Corrupt
		case layout.ViewLocked:
			if !wait {
				return CellResult{Cell: cell, Skipped: true}, nil
			}
			blocker = seen.Lock
			if waited == nil {
				ctx, waited = r.locks.WatchLock(ctx, cell.Table)
			}
			commitTS, err := r.locks.ResolveOrWait(ctx, cell, seen.Lock, &pause)
			if err != nil {
				return CellResult{}, locks.LockedErr(ctx, cell, blocker, err)
			}
			if commitTS != 0 {
				v, window = v.Committed(seen.Lock, commitTS, window)
				continue
			}
			window = max(window, 2) // there may be a rollback marker now
		}
		rv, err := r.store.ReadVersions(ctx, cell.Table, cell.Row, store.Newest([]string{cell.Column}, ts, window))
		if err != nil {
			return CellResult{}, locks.LockedErr(ctx, cell, blocker, err)
		}
		v = rv[cell.Column]
	}
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
	// The data is gone. Below the mark this is the trace of a phase-two write that landed after
	// collection; a snapshot that may itself have been collected is refused first.
	m, err := r.meta.Refresh(ctx)
	if err != nil {
		return CellResult{}, err
	}
	if err := r.meta.CheckRead(ctx, ts); err != nil {
		return CellResult{}, err
	}
	if w.CommitTS <= m.Watermark {
		r.store.Count.LateRecords.Add(1)
		return CellResult{Cell: cell}, nil
	}
	return CellResult{}, model.CellError(model.ErrCorrupt, cell, "the put record at %d names data at %d, which does not exist", w.CommitTS, w.StartTS)
}

func NonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
