package commit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/percolator/model"
)

// prepare is a commit up to its prewrites: it checks the writes at the start timestamp and adds the
// index entries. The start timestamp of a blind transaction may be from before Begin, and only a
// conflict may follow from that, which Update repeats (I2). What else a new one may cure is checked
// again there: the transaction has read nothing, and written nothing yet.
func (tx *Txn) prepare(ctx context.Context, writes []*Write, weak []model.Cell) (*commit, error) {
	if !tx.opts.Blind {
		return tx.prepareOnce(ctx, writes, weak)
	}
	if slices.ContainsFunc(writes, tx.wouldConflict) { // before anything is read there, for indexes
		if err := tx.restart(ctx); err != nil {
			return nil, err
		}
	}
	cm, err := tx.prepareOnce(ctx, writes, weak)
	again := tx.ahead && outdated(err)
	if err == nil { // with the index entries
		again = slices.ContainsFunc(cm.rows, func(rw *rowWrites) bool { return tx.wouldConflict(rw.writes[0]) })
	}
	if !again {
		return cm, err
	}
	if err := tx.restart(ctx); err != nil {
		return nil, err
	}
	return tx.prepareOnce(ctx, writes, weak)
}

// outdated reports whether a commit that has failed for certain may succeed at a newer start
// timestamp. It may not where the store did not answer.
func outdated(err error) bool {
	if _, failed := status.FromError(err); failed || errors.Is(err, model.ErrOutcomeUnknown) {
		return false
	}
	return errors.Is(err, model.ErrUnique) || errors.Is(err, model.ErrSnapshotTooOld)
}

// restart gives a blind transaction a new start timestamp.
func (tx *Txn) restart(ctx context.Context) error {
	asked := time.Now()
	ts, err := tx.c.Clock.Next(ctx)
	if err != nil {
		return err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.snap, tx.started, tx.ahead = reads.ForTxn(tx.c.Reads, ts), asked, false
	return nil
}

// prepareOnce prepares the commit at the start timestamp as it is.
func (tx *Txn) prepareOnce(ctx context.Context, writes []*Write, weak []model.Cell) (*commit, error) {
	schema := tx.c.Meta.Catalog.Load()
	if err := observe(schema, writes); err != nil {
		return nil, err
	}
	if err := tx.checkInserts(ctx, writes); err != nil {
		return nil, err
	}
	own := len(writes)
	writes, err := tx.withIndexes(ctx, writes)
	if errors.Is(err, model.ErrUnique) { // by an index that may be gone
		err = cmp.Or(tx.c.checkSchema(schema, tx.StartTimestamp()), err)
	}
	if err != nil {
		return nil, err
	}
	if err := tx.c.contention.check(tx.opts.turns, tx.StartTimestamp(), writes[own:]); err != nil {
		return nil, err
	}
	cm := &commit{c: tx.c, schema: schema, startTS: tx.StartTimestamp(), started: tx.started, weak: weak, outcome: map[*rowWrites]prewriteOutcome{}}
	if err := cm.group(writes, tx.erase); err != nil {
		return nil, err
	}
	return cm, cm.checkAge(ctx)
}

// observe decides which writes notify, and when values expire, by the schema as it is now: it may
// have changed since they were buffered.
func observe(schema *catalog.Catalog, writes []*Write) error {
	for _, w := range writes {
		info, ok := schema.UserTable(w.Cell.Table)
		switch {
		case !ok:
			return schema.UnknownTable(w.Cell.Table)
		case info.IsWeak[w.Cell.Column]:
			return catalog.CellError(model.ErrSchemaMismatch, w.Cell, "the column has become weak: it can only be notified")
		}
		w.observed = info.IsObserved[w.Cell.Column] && w.Kind.Changes()
		if w.Kind == layout.KindPut {
			if err := info.Declared.Check(w.Cell); err != nil { // the column was dropped since
				return err
			}
			w.Life = layout.Lifetime{For: info.TTLOf(w.Cell.Column)}
		}
	}
	return nil
}

// checkInserts reads the cells that must not exist; a concurrent writer of them conflicts later.
func (tx *Txn) checkInserts(ctx context.Context, writes []*Write) error {
	var cells []model.Cell
	for _, w := range writes {
		if w.insert {
			cells = append(cells, w.Cell)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	values, err := tx.snap.GetMulti(ctx, cells...)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v != nil {
			return catalog.CellError(model.ErrExists, cells[i], "Insert found a value at %d", tx.StartTimestamp())
		}
	}
	return nil
}

// group sorts the writes by row, in the order in which rows were first written; the first write is
// the primary.
func (cm *commit) group(writes []*Write, erase map[model.Cell]bool) error {
	cm.inFlight = semaphore.NewWeighted(prewriteBytes)
	rows := map[layout.RowID]*rowWrites{}
	for _, w := range writes {
		k := layout.RowID{Table: w.Cell.Table, Key: w.Cell.Row}
		rw := rows[k]
		if rw == nil {
			rw = &rowWrites{table: k.Table, row: k.Key}
			rows[k] = rw
			cm.rows = append(cm.rows, rw)
		}
		if err := rw.add(w); err != nil {
			return err
		}
	}
	if len(writes) > 0 {
		cm.primary = writes[0]
	}
	for c := range erase {
		if rw := rows[layout.RowID{Table: c.Table, Key: c.Row}]; rw != nil {
			rw.erase = append(rw.erase, c.Column)
		}
	}
	return nil
}
