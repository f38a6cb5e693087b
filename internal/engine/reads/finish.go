package reads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What a request saw decides most cells. The others are finished together, in rounds, so that a
// page of a thousand such cells takes few requests more than a plain one:
//
//	locked    the locks are resolved, or awaited, and what was rolled back is read again
//	deeper    the newest records are of locks and rollbacks: read the newest that changes the cell,
//	          without values; that with the newest data is nearly always the value
//	no data   the newest data is not the record's, as when a transaction was committing at the
//	          snapshot: read the version beneath
//
// None of this needs to see the whole cell at one moment. Without a lock at or below the snapshot,
// no record at or below it comes any more (I2, I5), and the check that follows the last request
// refuses a snapshot of which collection may have taken something (I16).

// Scanned says which rows and columns the request of a page passed over. The zero value: rows that
// it named.
type Scanned struct {
	Rows       catalog.Ranges
	AllColumns bool
}

// unfinished are the cells of one table that a request left undecided.
type unfinished struct {
	r     *Reader
	ts    tso.Timestamp
	table string
	scan  Scanned
	rows  int  // that the request brought
	whole bool // the caller takes all cells or none
	bad   error
	cells []*undecided // that are not decided

	pause  locks.LockWait
	waited *locks.LockWatch
}

// undecided is one of them.
type undecided struct {
	out    *CellResult // its Cell is set
	seen   *layout.Versions
	window int  // versions of each family that were asked for
	wait   bool // a lock is waited for; otherwise a locked or corrupt cell is skipped

	decided bool
	exact   bool       // its data was not where it was to be expected
	lives   bool       // the transaction that locks it was alive at the last look
	behind  *undecided // the cell that is looked at meanwhile for all that its transaction locks
}

// unfinished starts to collect what a request of so many rows left undecided.
func (r *Reader) unfinished(ts tso.Timestamp, table string, scan Scanned, rows int) *unfinished {
	return &unfinished{r: r, ts: ts, table: table, scan: scan, rows: rows}
}

// add decides a cell, or keeps it for finish.
func (u *unfinished) add(out *CellResult, v *layout.Versions, window int, wait bool) {
	if settle(out, v, u.ts, window, wait) {
		u.bad = cmp.Or(u.bad, out.Err)
	} else {
		u.cells = append(u.cells, &undecided{out: out, seen: v, window: window, wait: wait})
	}
}

// settle decides a cell by what was seen of it, if that is enough.
func settle(out *CellResult, v *layout.Versions, ts tso.Timestamp, window int, wait bool) bool {
	seen := v.At(ts, window)
	switch seen.State {
	case layout.ViewAbsent:
		out.Record = seen.Record
	case layout.ViewValue:
		out.Record, out.Value = seen.Record, NonNil(seen.Value)
	case layout.ViewLocked:
		out.Skipped = !wait
		return out.Skipped
	case layout.ViewCorrupt:
		if out.Skipped = !wait; wait {
			out.Err = v.Corrupt
		}
	default:
		return false
	}
	return true
}

// finish decides every cell. ErrCorrupt stays with its cell, unless the caller takes all or none:
// then nothing is awaited on behalf of the others.
func (u *unfinished) finish(ctx context.Context) (err error) {
	if !u.more() {
		return u.failure()
	}
	u.pause = locks.NewLockWait()
	defer func() { u.waited.End(err) }()
	for u.more() {
		if err := u.round(&ctx); err != nil {
			return u.pause.Err(ctx, err)
		}
		u.cells = slices.DeleteFunc(u.cells, func(c *undecided) bool {
			c.decided = c.decided || settle(c.out, c.seen, u.ts, c.window, c.wait)
			if c.decided {
				u.bad = cmp.Or(u.bad, c.out.Err)
			}
			return c.decided
		})
	}
	return u.failure()
}

// more reports whether there are cells to decide.
func (u *unfinished) more() bool { return len(u.cells) > 0 && u.failure() == nil }

// failure is why the caller gets no cell.
func (u *unfinished) failure() error {
	if u.whole {
		return u.bad
	}
	return nil
}

// round asks once for what each cell lacks. Its context gets the span of a wait for locks.
func (u *unfinished) round(ctx *context.Context) error {
	var locked, again, deeper, missing []*undecided
	for _, c := range u.cells {
		seen := c.seen.At(u.ts, c.window)
		switch lead := c.behind; {
		case lead == nil:
		case lead.lives && lead.lockedBy(seen.Lock.StartTS):
			continue
		case lead.lives: // its lock went while nobody here looked
			c.behind = nil
			again = append(again, c)
			continue
		default:
			c.behind = nil
		}
		switch seen.State {
		case layout.ViewLocked:
			locked = append(locked, c)
		case layout.ViewNeedData:
			missing = append(missing, c)
		case layout.ViewDeeper:
			u.r.policy.of(u.table).deeper()
			if c.seen.Missed(u.ts) {
				again = append(again, c)
			} else {
				deeper = append(deeper, c)
			}
		}
	}
	if len(locked) > 0 {
		if u.waited == nil {
			*ctx, u.waited = u.r.locks.WatchLock(*ctx, u.table)
		}
		more, err := u.pass(*ctx, locked)
		if err != nil {
			return err
		}
		again = append(again, more...)
	}
	if err := u.readAgain(*ctx, again); err != nil {
		return err
	}
	if err := u.readChanges(*ctx, deeper); err != nil {
		return err
	}
	return u.readData(*ctx, missing)
}

// lockedBy reports whether the cell still shows the lock of a transaction.
func (c *undecided) lockedBy(start tso.Timestamp) bool {
	return !c.decided && slices.ContainsFunc(c.seen.Locks, func(l layout.LockRecord) bool { return l.StartTS == start })
}

// pass gets past the locks of cells, or waits. It returns the cells to read again: of those that a
// live transaction locks, one.
func (u *unfinished) pass(ctx context.Context, locked []*undecided) (again []*undecided, err error) {
	met := ordered.Map(locked, func(c *undecided) *locks.Met {
		return &locks.Met{Cell: c.out.Cell, Lock: c.seen.At(u.ts, c.window).Lock}
	})
	if err := u.r.locks.ResolveOrWait(ctx, met, &u.pause); err != nil {
		return nil, err
	}
	alive := map[tso.Timestamp]*undecided{}
	for i, c := range locked {
		m := met[i]
		c.lives = false
		switch lead := alive[m.Lock.StartTS]; {
		case m.Err != nil:
			c.decided, c.out.Err = true, m.Err
		case m.CommitTS != 0:
			c.seen, c.window = c.seen.Committed(m.Lock, m.CommitTS, c.window)
		case lead != nil:
			c.behind = lead
		default:
			if c.lives = m.Resolution == model.LockAlive; c.lives {
				alive[m.Lock.StartTS] = c
			}
			again = append(again, c)
		}
	}
	return again, nil
}

// readAgain reads cells as if nothing had been seen of them.
func (u *unfinished) readAgain(ctx context.Context, cells []*undecided) error {
	q := func(columns []string) store.Query { return store.Newest(columns, u.ts, 1).OnlyChanges() }
	return u.ask(ctx, cells, true, q, func(c *undecided, v *layout.Versions) { c.seen, c.window = v, 1 })
}

// readChanges reads the newest record that changes each of the cells. Their data is at hand.
func (u *unfinished) readChanges(ctx context.Context, cells []*undecided) error {
	q := func(columns []string) store.Query { return store.Changes(columns, u.ts) }
	return u.ask(ctx, cells, false, q, func(c *undecided, v *layout.Versions) {
		found := &layout.Versions{Data: c.seen.Data}
		if v != nil {
			found.Writes, found.Corrupt = v.Writes, v.Corrupt
		}
		c.seen, c.window = found, 1
	})
}

// readData reads the data that records name. What was seen instead lies above it, with nothing in
// between: whoever prewrites a cell has seen the end of what prewrote it earlier (I2, I3). So one
// bound serves all cells whose data is at or below it and whose other data is above, such as those
// of one large transaction, and one request reads the newest data beneath it. Cells without such
// data, and those of which the bound has found something else, are read one by one.
func (u *unfinished) readData(ctx context.Context, cells []*undecided) error {
	var alone, rest []*undecided
	above := make(map[*undecided]tso.Timestamp, len(cells))
	for _, c := range cells {
		if above[c] = c.seen.DataAbove(c.wants(u.ts)); above[c] == 0 || c.exact || len(cells) == 1 {
			alone = append(alone, c)
		} else {
			rest = append(rest, c)
		}
	}
	for len(rest) > 0 {
		lowest := slices.MinFunc(rest, func(a, b *undecided) int { return cmp.Compare(above[a], above[b]) })
		bound := above[lowest] - 1
		var these []*undecided
		rest = slices.DeleteFunc(rest, func(c *undecided) bool {
			fits := c.wants(u.ts) <= bound
			if fits {
				these = append(these, c)
			}
			return fits
		})
		q := func(columns []string) store.Query { return store.Newest(columns, bound, 1) }
		err := u.ask(ctx, these, true, q, func(c *undecided, v *layout.Versions) {
			c.exact = true
			if v != nil && v.Corrupt == nil {
				c.seen = &layout.Versions{Writes: c.seen.Writes, Data: v.Data}
			}
		})
		if err != nil {
			return err
		}
	}
	return u.each(ctx, alone, func(ctx context.Context, c *undecided) error {
		res, err := u.r.readData(ctx, u.ts, c.out.Cell, c.seen.At(u.ts, c.window).Record)
		if errors.Is(err, model.ErrCorrupt) {
			c.out.Err, err = err, nil
		} else {
			*c.out = res
		}
		c.decided = err == nil
		return err
	})
}

// wants is the version of data that the deciding record names.
func (c *undecided) wants(ts tso.Timestamp) tso.Timestamp {
	return c.seen.At(ts, c.window).Record.StartTS
}

// each calls f for the cells in parallel.
func (u *unfinished) each(ctx context.Context, cells []*undecided, f func(context.Context, *undecided) error) error {
	if len(cells) == 1 {
		return f(ctx, cells[0])
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, u.r.cfg.MaxParallelism))
	for _, c := range cells {
		g.Go(func() error { return f(gctx, c) })
	}
	return g.Wait()
}

// ask asks for cells and hands out what was found of each; nil: nothing. values says whether the
// answer has any.
func (u *unfinished) ask(ctx context.Context, cells []*undecided, values bool, query func(columns []string) store.Query, found func(*undecided, *layout.Versions)) error {
	for len(cells) > 0 {
		var columns []string
		var these []*undecided
		if columns, these, cells = u.nameable(cells, values); len(these) == 0 {
			continue
		}
		if err := u.askFor(ctx, these, values, query(columns), found); err != nil {
			return err
		}
	}
	return nil
}

// nameable takes the cells whose columns one filter holds. Records of all columns may be asked for
// without their names, where the page was.
func (u *unfinished) nameable(cells []*undecided, values bool) (columns []string, these, rest []*undecided) {
	size := 0
	named := map[string]bool{}
	for _, c := range cells {
		column := c.out.Cell.Column
		if n := store.PatternBytes(column); !named[column] {
			if len(named) > 0 && size+n > model.MaxFilterBytes {
				rest = append(rest, c)
				continue
			}
			named[column], size = true, size+n
			columns = append(columns, column)
		}
		these = append(these, c)
	}
	if len(rest) > 0 && u.scan.AllColumns && !values {
		return nil, cells, nil
	}
	slices.Sort(columns)
	return columns, these, rest
}

// askFor asks one query of the rows of cells.
func (u *unfinished) askFor(ctx context.Context, cells []*undecided, values bool, q store.Query, found func(*undecided, *layout.Versions)) error {
	if len(cells) == 1 {
		at := cells[0].out.Cell
		rv, err := u.r.store.ReadVersions(ctx, u.table, at.Row, q)
		if err == nil {
			found(cells[0], rv[at.Column])
		}
		return err
	}
	byRow := map[string][]*undecided{}
	var keys []string
	for _, c := range cells {
		key := c.out.Cell.Row
		if byRow[key] == nil {
			keys = append(keys, key)
		}
		byRow[key] = append(byRow[key], c)
	}
	slices.Sort(keys)
	err := u.eachRow(ctx, keys, values, q, func(row layout.Row) {
		rv := layout.DecodeRow(u.table, row)
		for _, c := range byRow[row.Key] {
			found(c, rv[c.out.Cell.Column])
		}
		delete(byRow, row.Key)
	})
	if err != nil {
		return err
	}
	for _, missing := range byRow {
		for _, c := range missing {
			found(c, nil)
		}
	}
	return nil
}

// eachRow reads rows: by name, as many as a request may name. Where they are more, and most of
// those that the page passed over, it passes over them again; records without values also for few.
func (u *unfinished) eachRow(ctx context.Context, keys []string, values bool, q store.Query, visit func(layout.Row)) error {
	named := slices.Collect(store.KeyChunks(keys))
	if over := u.scan.Rows.Within(model.Between(keys[0], keys[len(keys)-1]+"\x00")); len(named) > 1 && len(over) > 0 && (!values || 2*len(keys) > u.rows) {
		pass := u.r.store.NewPassOver(u.table, store.Rows{Ranges: over}, q, store.PageSize{Bytes: ScanPages.Bytes})
		for page, err := range pass.Pages(ctx) {
			if err != nil {
				return err
			}
			for _, row := range page.Rows {
				visit(row)
			}
		}
		return nil
	}
	for _, chunk := range named {
		err := u.r.store.ReadRows(ctx, u.table, store.Rows{Keys: chunk}, q, 0, func(row layout.Row) bool {
			visit(row)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addRow adds the users' columns of a row, and gives the row its cells.
func (u *unfinished) addRow(row *PageRow) {
	columns := row.Seen.Columns()
	row.Cells = make([]CellResult, 0, len(columns))
	for _, col := range columns {
		if strings.HasPrefix(col, layout.Reserved) {
			continue
		}
		row.Cells = append(row.Cells, CellResult{Cell: model.Cell{Table: u.table, Row: row.Key, Column: col}})
		u.add(&row.Cells[len(row.Cells)-1], row.Seen[col], 1, true)
	}
}
