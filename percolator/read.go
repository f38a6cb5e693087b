package percolator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/tso"
)

// Reading a cell at ts (lines 8–24 of Figure 6 of the paper) takes one request: it returns the newest lock, write record and
// data version at or below ts. A lock means that a transaction may be committing below ts, so it is waited for or
// resolved (I15). Otherwise the newest record that changes the cell decides; the newest data is only a guess at its value,
// accepted when its timestamp is the record's start_ts.
//
// The alternative of the paper, one read for each of the three families, was rejected: Bigtable reads a row atomically, so
// one request is both cheaper and free of the races between them.

// readRowsLimit is the most rows that one ReadRows request names.
const readRowsLimit = 512

// A reader that meets a live lock looks again after about minLockWait, then ever later up to maxLockWait.
const (
	minLockWait = 2 * time.Millisecond
	maxLockWait = 250 * time.Millisecond
)

// viewState is what versions say about a cell at a timestamp.
type viewState int

const (
	viewAbsent   viewState = iota // never written, or deleted
	viewValue                     // the value is at hand
	viewLocked                    // a lock at or below the timestamp hides the answer
	viewNeedData                  // the record is known, its data was not among the versions
	viewDeeper                    // only records that change nothing were seen, and there may be more
	viewCorrupt                   // a cell cannot be decoded
)

type view struct {
	state  viewState
	lock   lockRecord
	record writeRecord
	value  []byte
}

// at decides what a snapshot at ts sees. window is how many versions of each family were asked for. It is pure.
func (v *versions) at(ts tso.Timestamp, window int) view {
	if v == nil {
		return view{state: viewAbsent}
	}
	if v.corrupt != nil {
		return view{state: viewCorrupt}
	}
	for _, l := range v.locks {
		if l.startTS <= ts {
			return view{state: viewLocked, lock: l}
		}
	}
	for _, w := range v.writes {
		switch {
		case w.commitTS > ts || !w.kind.changes():
			continue
		case w.kind == kindDelete:
			return view{state: viewAbsent, record: w}
		}
		for _, d := range v.data {
			if d.startTS == w.startTS {
				return view{state: viewValue, record: w, value: d.value}
			}
		}
		return view{state: viewNeedData, record: w}
	}
	if len(v.writes) >= window {
		return view{state: viewDeeper}
	}
	return view{state: viewAbsent}
}

// cellResult is the answer for one cell. value is nil where there is none.
type cellResult struct {
	cell    Cell
	value   []byte
	record  writeRecord // the record that decided; zero if there was none
	skipped bool        // locked or corrupt, and nobody insisted
}

// readCells reads cells at ts. The first required ones are waited for; the others are skipped when they are locked.
func (c *Client) readCells(ctx context.Context, ts tso.Timestamp, cells []Cell, required int) ([]cellResult, error) {
	out, _, err := c.readCellsAndRows(ctx, ts, cells, required)
	return out, err
}

// readCellsAndRows also returns the rows that were read whole on the occasion.
func (c *Client) readCellsAndRows(ctx context.Context, ts tso.Timestamp, cells []Cell, required int) ([]cellResult, []rowAnswer, error) {
	if c.closed.Load() {
		return nil, nil, fmt.Errorf("percolator: %w", ErrClosed)
	}
	out := make([]cellResult, len(cells))
	groups := c.groupReads(cells)
	finish := func(ctx context.Context, g *readGroup) error {
		if err := c.fetch(ctx, ts, g); err != nil {
			return err
		}
		for _, r := range g.rows {
			for i, col := range r.columns {
				at := r.index[i]
				res, err := c.settleRead(ctx, ts, Cell{g.table, r.row, col}, r.answer.seen[col], r.answer.window, at < required)
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
		g.SetLimit(c.cfg.MaxParallelism)
		for _, group := range groups {
			g.Go(func() error { return finish(gctx, group) })
		}
		if err := g.Wait(); err != nil {
			return nil, nil, withContext(ctx, err)
		}
	}
	var whole []rowAnswer
	for _, g := range groups {
		for _, r := range g.rows {
			if r.answer.whole {
				r.answer.row = Cell{Table: g.table, Row: r.row}
				whole = append(whole, r.answer)
			}
		}
	}
	return out, whole, c.meta.checkRead(ctx, ts)
}

// readCell is readCellsAndRows for one cell that is waited for.
func (c *Client) readCell(ctx context.Context, ts tso.Timestamp, cell Cell) (cellResult, rowAnswer, error) {
	if c.closed.Load() {
		return cellResult{}, rowAnswer{}, fmt.Errorf("percolator: %w", ErrClosed)
	}
	a, err := c.fetchOne(ctx, c.query(ts, cell.Table, []string{cell.Column}, false), cell.Row)
	if err != nil {
		return cellResult{}, rowAnswer{}, err
	}
	a.row = Cell{Table: cell.Table, Row: cell.Row}
	res, err := c.settleRead(ctx, ts, cell, a.seen[cell.Column], a.window, true)
	if err != nil {
		return cellResult{}, rowAnswer{}, err
	}
	return res, a, c.meta.checkRead(ctx, ts)
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

// groupReads groups cells by row, rows by their set of columns, and cuts groups to what one request may name. Without prefetch a column
// travels alone, without batching a row.
func (c *Client) groupReads(cells []Cell) []*readGroup {
	if len(cells) == 1 {
		one := cells[0]
		return []*readGroup{{one.Table, []string{one.Column}, []*rowWants{{row: one.Row, columns: []string{one.Column}, index: []int{0}}}}}
	}
	most := readRowsLimit
	if c.cfg.DisableBatching {
		most = 1
	}
	type rowKey struct{ table, row, column string }
	byRow := map[rowKey]*rowWants{}
	var order []rowKey
	for i, cell := range cells {
		k := rowKey{table: cell.Table, row: cell.Row}
		if c.cfg.DisablePrefetch {
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
		n := patternBytes(col)
		if len(out) == 0 || size+n > maxFilterBytes {
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
func (c *Client) query(ts tso.Timestamp, table string, columns []string, several bool) rowQuery {
	habits := c.habits.of(table)
	q := rowQuery{table: table, columns: columns, ts: ts, window: habits.window()}
	if !c.cfg.DisablePrefetch {
		q.whole, q.probes = habits.whole(several)
	}
	return q
}

// fetchOne sends the request for one row, or joins a batch with other goroutines' requests.
func (c *Client) fetchOne(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	if c.cfg.DisableBatching || q.probes {
		return c.readOne(ctx, q, row)
	}
	return c.batch.read(ctx, q, row)
}

// fetch asks for a group, and leaves the answers with the rows.
func (c *Client) fetch(ctx context.Context, ts tso.Timestamp, g *readGroup) (err error) {
	q := c.query(ts, g.table, g.columns, len(g.rows) > 1)
	if len(g.rows) == 1 {
		g.rows[0].answer, err = c.fetchOne(ctx, q, g.rows[0].row)
		return err
	}
	keys := make([]string, len(g.rows))
	for i, r := range g.rows {
		keys[i] = r.row
	}
	answers, err := c.readMany(ctx, q, keys)
	if err != nil && c.byNameAfter(ctx, q, err) {
		answers, err = c.readMany(ctx, q.byName(), keys)
	}
	if err != nil {
		return err
	}
	for i, r := range g.rows {
		if r.answer = answers[i]; r.answer.cut {
			if r.answer, err = c.readOne(ctx, q.byName(), r.row); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Client) readVersions(ctx context.Context, table, row string, f bigtable.Filter) (rowVersions, error) {
	r, err := c.store.readRow(ctx, table, row, f)
	if err != nil {
		return nil, err
	}
	return decodeRow(table, r), nil
}

// settleRead turns what a request saw of one cell into the answer, with further requests where it must: past locks, past
// records that change nothing, and for data that the guess missed.
func (c *Client) settleRead(ctx context.Context, ts tso.Timestamp, cell Cell, v *versions, window int, wait bool) (_ cellResult, err error) {
	pause := newLockWait()
	var blocker lockRecord // the lock that was last waited for
	var waited *lockWatch
	defer func() { waited.end(err) }()
	for {
		seen := v.at(ts, window)
		switch seen.state {
		case viewAbsent:
			return cellResult{cell: cell, record: seen.record}, nil
		case viewValue:
			return cellResult{cell: cell, record: seen.record, value: nonNil(seen.value)}, nil
		case viewNeedData:
			return c.readData(ctx, ts, cell, seen.record)
		case viewDeeper:
			c.habits.of(cell.Table).deeper()
			window *= 4
		case viewCorrupt:
			if !wait {
				return cellResult{cell: cell, skipped: true}, nil
			}
			return cellResult{}, v.corrupt
		case viewLocked:
			if !wait {
				return cellResult{cell: cell, skipped: true}, nil
			}
			blocker = seen.lock
			if waited == nil {
				ctx, waited = c.watchLock(ctx, cell.Table)
			}
			commitTS, err := c.passLock(ctx, cell, seen.lock, &pause)
			if err != nil {
				return cellResult{}, lockedErr(ctx, cell, blocker, err)
			}
			if commitTS != 0 {
				v, window = v.committed(seen.lock, commitTS, window)
				continue
			}
			window = max(window, 2) // there may be a rollback marker now
		}
		rv, err := c.readVersions(ctx, cell.Table, cell.Row, snapshotFilter([]string{cell.Column}, ts, window))
		if err != nil {
			return cellResult{}, lockedErr(ctx, cell, blocker, err)
		}
		v = rv[cell.Column]
	}
}

// readData reads exactly the version that a record names.
func (c *Client) readData(ctx context.Context, ts tso.Timestamp, cell Cell, w writeRecord) (cellResult, error) {
	rv, err := c.readVersions(ctx, cell.Table, cell.Row, bigtable.ChainFilters(oneColumn(dataFamily, cell.Column), exactly(w.startTS)))
	if err != nil {
		return cellResult{}, err
	}
	if v := rv[cell.Column]; v != nil && v.corrupt != nil {
		return cellResult{}, v.corrupt
	} else if v != nil {
		return cellResult{cell: cell, record: w, value: nonNil(v.data[0].value)}, nil
	}
	// The data is gone. Below the mark this is the trace of a phase-two write that landed after collection; a snapshot
	// that may itself have been collected is refused first.
	m, err := c.meta.refresh(ctx)
	if err != nil {
		return cellResult{}, err
	}
	if err := c.meta.checkRead(ctx, ts); err != nil {
		return cellResult{}, err
	}
	if w.commitTS <= m.mark {
		c.count.lateRecords.Add(1)
		return cellResult{cell: cell}, nil
	}
	return cellResult{}, cellErr(ErrCorrupt, cell, "the put record at %d names data at %d, which does not exist", w.commitTS, w.startTS)
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
