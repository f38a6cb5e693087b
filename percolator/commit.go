package percolator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/tso"
)

// Commit is the two-phase commit of section 2.2 of the paper, coordinated by the client:
//
//	prewrite every row                                         all at once; a conflict ends it (I2)
//	commit_ts ← oracle                                         after every prewrite was acknowledged (I5)
//	weak notifications @commit_ts                              before the commit, or a crash would lose them (I11)
//	commit the primary's row, if it still holds the lock       the commit point (I6)
//	commit the other rows                                      in the background; the caller has its answer (I7)
//
// A request whose outcome is unknown may have been applied. A prewrite is sent again. A commit is decided by reading the
// primary (I17): a record of ours means committed, our lock means that the same request is sent again with the same
// commit_ts, a rollback marker means aborted. Nothing at all means aborted too, unless the record may have been collected.
// What is still open when the requests' lifetime has passed is in commitlate.go.
//
// Rejected: answering the caller only after phase two. It would double the latency and promise nothing more, since anyone
// who meets a secondary's lock finds the record on the primary.

// commit is the commit of one transaction.
type commit struct {
	c       *Client
	schema  *catalog // by which the writes were prepared
	startTS tso.Timestamp
	begun   time.Time
	rows    []*rowWrites // the primary's row first
	primary *write
	weak    []Cell
	// until is one lifetime from before the last check of the transaction's age. Nothing of the commit point, of giving it up and of
	// phase two is sent later (I14): by then the record may have been collected, and what would then look like an abort is none.
	until time.Time

	underWay *semaphore.Weighted // bytes of values in prewrite requests
	failed   atomic.Bool         // a row's prewrite has failed: the others stop
	mu       sync.Mutex
	outcome  map[*rowWrites]prewriteOutcome
}

func (cm *commit) id() txnID { return txnID{cm.primary.cell, cm.startTS} }

// Commit makes the buffered writes visible, all or none, and returns the commit timestamp; of a transaction without writes
// its start timestamp, without any request.
//
// Errors: ErrConflict (*ConflictError), ErrExists, ErrUnique, ErrTooLarge and ErrSnapshotTooOld mean that nothing was
// written. ErrOutcomeUnknown means that it may have been. When ctx ends before the commit point was tried, the
// transaction is definitely aborted and the error is the context's.
func (tx *Txn) Commit(ctx context.Context) (tso.Timestamp, error) {
	if err := checkContext(ctx); err != nil {
		return 0, err
	}
	writes, weak, err := tx.seal()
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("percolator: commit not begun: %w", err)
	}
	if len(writes) == 0 && len(weak) == 0 {
		return tx.snap.ts, nil
	}
	c := tx.c
	ctx, span := c.trace.start(ctx, "percolator.commit", "")
	span.timestamp("percolator.start_timestamp", tx.snap.ts)
	span.count("percolator.cells", len(writes))
	begun := time.Now()
	ts, err := tx.commit(ctx, writes, weak)
	c.count.ended(err)
	c.count.latency[opCommit].add(time.Since(begun))
	c.store.metrics.transaction(ctx, time.Since(tx.since), err)
	if err == nil {
		span.timestamp("percolator.commit_timestamp", ts)
	}
	span.conflict(err)
	span.end(err)
	return ts, err
}

// seal ends the buffering phase.
func (tx *Txn) seal() (writes []*write, weak []Cell, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, nil, errTxnDone()
	}
	tx.done = true
	for c := range tx.weak {
		weak = append(weak, c)
	}
	tx.writes = nil // a finished transaction answers nothing from it, and a large one needs the room
	return tx.order, weak, nil
}

func (tx *Txn) commit(ctx context.Context, writes []*write, weak []Cell) (tso.Timestamp, error) {
	if tx.opts.blind { // before anything is read at the start timestamp, for indexes
		if err := tx.freshen(ctx, writes); err != nil {
			return 0, err
		}
	}
	schema := tx.c.catalog.Load()
	if err := observe(schema, writes); err != nil {
		return 0, err
	}
	if err := tx.checkInserts(ctx, writes); err != nil {
		return 0, err
	}
	writes, err := tx.withIndexes(ctx, writes)
	if err != nil {
		return 0, err
	}
	cm := &commit{c: tx.c, schema: schema, startTS: tx.snap.ts, begun: tx.begun, weak: weak, outcome: map[*rowWrites]prewriteOutcome{}}
	if err := cm.group(writes, tx.erase); err != nil {
		return 0, err
	}
	if err := cm.checkAge(ctx); err != nil {
		return 0, err
	}
	if len(writes) == 0 {
		return cm.notifyOnly(ctx)
	}
	return cm.run(ctx)
}

// observe decides which writes notify, by the schema as it is known now: it may have changed since they were buffered.
func observe(schema *catalog, writes []*write) error {
	for _, w := range writes {
		info, ok := schema.user(w.cell.Table)
		switch {
		case !ok:
			return unknownTable(w.cell.Table)
		case info.weak[w.cell.Column]:
			return cellErr(ErrSchemaMismatch, w.cell, "the column has become weak: it can only be notified")
		}
		w.observed = info.observed[w.cell.Column] && w.kind.changes()
	}
	return nil
}

// checkInserts reads the cells that must not exist; a concurrent writer of them conflicts later.
func (tx *Txn) checkInserts(ctx context.Context, writes []*write) error {
	var cells []Cell
	for _, w := range writes {
		if w.insert {
			cells = append(cells, w.cell)
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
			return cellErr(ErrExists, cells[i], "Insert found a value at %d", tx.snap.ts)
		}
	}
	return nil
}

// group sorts the writes by row, in the order in which rows were first written; the first write is the primary.
func (cm *commit) group(writes []*write, erase map[Cell]bool) error {
	cm.underWay = semaphore.NewWeighted(prewriteBytes)
	type key struct{ table, row string }
	rows := map[key]*rowWrites{}
	for _, w := range writes {
		k := key{w.cell.Table, w.cell.Row}
		rw := rows[k]
		if rw == nil {
			rw = &rowWrites{table: k.table, row: k.row}
			rows[k] = rw
			cm.rows = append(cm.rows, rw)
		}
		if rw.writes = append(rw.writes, w); len(rw.writes) > MaxColumnsPerRow {
			return cellErr(ErrTooLarge, w.cell, "the transaction writes more than %d columns of the row", MaxColumnsPerRow)
		}
	}
	if len(writes) > 0 {
		cm.primary = writes[0]
	}
	for c := range erase {
		if rw := rows[key{c.Table, c.Row}]; rw != nil {
			rw.erase = append(rw.erase, c.Column)
		}
	}
	return nil
}

// checkAge refuses to commit what the collector may already be working against (I16).
func (cm *commit) checkAge(ctx context.Context) error {
	if age := time.Since(cm.begun); age > cm.c.cfg.Retention/2 {
		return fmt.Errorf("percolator: %w: the transaction began %v ago, more than half of the retention of %v", ErrSnapshotTooOld, age.Round(time.Second), cm.c.cfg.Retention)
	}
	if err := cm.c.meta.checkRead(ctx, cm.startTS); err != nil {
		return err
	}
	if cm.c.catalog.Load() != cm.schema { // what is prewritten might lack notifications or index entries (I10)
		return fmt.Errorf("percolator: transaction %d: %w: the schema changed during the commit; run it again", cm.startTS, ErrConflict)
	}
	return nil
}

// run is the protocol for a transaction with writes.
func (cm *commit) run(ctx context.Context) (tso.Timestamp, error) {
	cm.c.own.begin(cm.startTS)
	commitTS, err := cm.firstPhase(ctx)
	cm.c.own.decide(cm.startTS, commitTS, len(cm.rows)-1)
	if err == nil {
		cm.phaseTwo(ctx, commitTS)
	}
	return commitTS, err
}

// firstPhase ends with the commit point.
func (cm *commit) firstPhase(ctx context.Context) (tso.Timestamp, error) {
	stop := cm.keepAlive(ctx)
	defer stop()
	if err := cm.tracedPrewrite(ctx); err != nil {
		return 0, cm.abort(ctx, err)
	}
	cm.dropValues()
	asked := time.Now()
	commitTS, err := cm.c.next(ctx)
	cm.c.store.metrics.phase(ctx, "timestamp", asked, err)
	if err != nil {
		return 0, cm.abort(ctx, err)
	}
	if commitTS <= cm.startTS {
		return 0, cm.abort(ctx, fmt.Errorf("percolator: the oracle went back: it gave %d after %d (I1); stop it and look at its store", commitTS, cm.startTS))
	}
	if err := cm.notifyWeak(ctx, commitTS); err != nil {
		return 0, cm.abort(ctx, err)
	}
	cm.until = time.Now().Add(cm.c.store.timing.RequestLifetime) // before the check
	if err := cm.checkAge(ctx); err != nil {
		return 0, cm.abort(ctx, err)
	}
	stop()
	if err := cm.commitPoint(ctx, commitTS); err != nil {
		return 0, err
	}
	return commitTS, nil
}

func (cm *commit) tracedPrewrite(ctx context.Context) error {
	begun := time.Now()
	ctx, span := cm.c.trace.start(ctx, "percolator.prewrite", "")
	span.count("percolator.rows", len(cm.rows))
	err := cm.prewrite(ctx)
	cm.c.store.metrics.phase(ctx, "prewrite", begun, err)
	span.end(err)
	return err
}

// commitPoint commits the primary's row. What stays open within its lifetime is decided late.
func (cm *commit) commitPoint(ctx context.Context, commitTS tso.Timestamp) error {
	begun := time.Now()
	pctx, span := cm.c.trace.start(ctx, "percolator.commit_primary", cm.primary.cell.Table)
	err := cm.commitPrimary(pctx, commitTS)
	if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil && !time.Now().Before(cm.until) {
		err = cm.decideLate(pctx, err)
	}
	cm.c.store.metrics.phase(pctx, "primary", begun, err)
	span.end(err)
	return err
}

// dropValues lets go of what prewrite has stored: the rest of the commit names cells only.
func (cm *commit) dropValues() {
	for _, rw := range cm.rows {
		for _, w := range rw.writes {
			w.value = nil
		}
	}
}

// keepAlive refreshes the time in the primary's lock while the commit takes longer than a third of the TTL. The refresh is
// conditional on the lock: a plain write that landed late would bring back a lock that was rolled back.
func (cm *commit) keepAlive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	interval := cm.c.cfg.LockTTL / 3
	timer := time.AfterFunc(interval, func() {
		for ctx.Err() == nil {
			mut := bigtable.NewMutation()
			mut.Set(lockFamily, cm.primary.cell.Column, cellTime(cm.startTS), cm.lock(cm.primary).encode())
			rctx, done := context.WithTimeout(ctx, interval)
			cm.c.store.checkAndMutate(rctx, cm.primary.cell.Table, cm.primary.cell.Row, lockFilter(cm.primary.cell.Column, cm.startTS), mut, nil)
			done()
			(&backoff{interval, interval}).wait(ctx)
		}
	})
	return func() {
		timer.Stop()
		cancel()
	}
}

// commitCell adds the mutations that commit one cell: the record, the lock gone, and the notification in the same breath (I10).
func commitCell(mut *bigtable.Mutation, column string, k kind, startTS, commitTS tso.Timestamp, observed bool) {
	mut.Set(writeFamily, column, cellTime(commitTS), encodeWrite(startTS, k))
	eraseExactly(mut, lockFamily, column, startTS)
	if observed {
		mut.Set(notifyFamily, column, cellTime(commitTS), nil)
	}
}

// commitMutation commits a whole row. Notifications that an acknowledgment in this row settles are erased first: only those
// at or below start_ts, so a change that came during the run survives (I13).
func (cm *commit) commitMutation(rw *rowWrites, commitTS tso.Timestamp) *bigtable.Mutation {
	mut := bigtable.NewMutation()
	for _, col := range rw.erase {
		mut.DeleteTimestampRange(notifyFamily, col, 0, settledUpTo(cm.startTS))
	}
	for _, w := range rw.writes {
		commitCell(mut, w.cell.Column, w.kind, cm.startTS, commitTS, w.observed)
	}
	return mut
}

// commitPrimary passes the commit point, or finds out that it cannot.
func (cm *commit) commitPrimary(ctx context.Context, commitTS tso.Timestamp) error {
	if err := ctx.Err(); err != nil { // not sent: a definite abort
		return cm.abort(ctx, fmt.Errorf("percolator: commit of transaction %d: %w", cm.startTS, err))
	}
	rw, p := cm.rows[0], cm.primary.cell
	mut := cm.commitMutation(rw, commitTS)
	lifetime, cancel := context.WithDeadline(ctx, cm.until)
	defer cancel()
	pause := newBackoff(5*time.Millisecond, time.Second)
	for {
		held, err := cm.c.store.checkAndMutate(lifetime, p.Table, p.Row, lockFilter(p.Column, cm.startTS), mut, nil)
		if err == nil && held {
			cm.committed(commitTS)
			return nil
		}
		resend, err := cm.outcomeOfCommit(lifetime, commitTS, err)
		if !resend {
			return err
		}
		if pause.wait(lifetime) != nil {
			return cm.unknown(lifetime, err)
		}
	}
}

func (cm *commit) committed(commitTS tso.Timestamp) {
	cm.c.recent.wrote(cm.rows, commitTS)
	cm.c.fates.Add(cm.id(), decision{fate: fateCommitted, commitTS: commitTS}) // phase two is under way: spare others the look
	cm.announce(cm.rows[0], commitTS)
}

// outcomeOfCommit reads the primary to decide a commit that was not acknowledged (I17). cause is the error of the request, nil
// if it did not match.
func (cm *commit) outcomeOfCommit(ctx context.Context, commitTS tso.Timestamp, cause error) (resend bool, err error) {
	if ctx.Err() != nil {
		return false, cm.unknown(ctx, cause)
	}
	var d decision
	pause := newBackoff(5*time.Millisecond, time.Second)
	for {
		if d, err = cm.c.fateOf(ctx, cm.primary.cell, cm.startTS); err == nil || !maybeApplied(err) || errors.Is(err, ErrClosed) {
			break
		}
		if pause.wait(ctx) != nil {
			return false, cm.unknown(ctx, err)
		}
	}
	switch {
	case err != nil:
		return false, cm.unknown(ctx, err)
	case d.fate == fateCommitted:
		cm.committed(d.commitTS)
		return false, nil
	case d.fate == fateLocked && cause != nil && !maybeApplied(cause):
		return false, cm.giveUp(ctx, cause)
	case d.fate == fateLocked:
		return true, cause
	case d.fate == fateUnknown:
		m, err := cm.c.meta.refresh(ctx)
		if err != nil || cm.startTS <= m.mark {
			return false, cm.unknown(ctx, errors.Join(cause, err))
		}
	}
	cm.cleanUp(ctx)
	return false, &ConflictError{Cell: cm.primary.cell, StartTS: cm.startTS}
}

// giveUp rolls back a transaction whose commit was refused for good, although an earlier sending may still be on its way. The
// primary decides who came first, as always (I8).
func (cm *commit) giveUp(ctx context.Context, cause error) error {
	d, err := cm.rollBack(ctx)
	switch {
	case err != nil:
		return cm.unknown(ctx, errors.Join(cause, err))
	case d.fate == fateCommitted:
		cm.committed(d.commitTS)
		return nil
	case d.fate != fateRolledBack:
		return cm.unknown(ctx, cause)
	}
	return withContext(ctx, cause)
}

func (cm *commit) unknown(ctx context.Context, cause error) error {
	err := fmt.Errorf("percolator: transaction %d with primary %s: %w", cm.startTS, cm.primary.cell, ErrOutcomeUnknown)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return withContext(ctx, err)
}

// phaseTwo commits the secondaries in the background. It waits for room in the queue at most as long as the caller does.
func (cm *commit) phaseTwo(ctx context.Context, commitTS tso.Timestamp) {
	if len(cm.rows) == 1 {
		return
	}
	watch := cm.c.watchPhaseTwo(ctx, len(cm.rows)-1)
	for rest := range slices.Chunk(cm.rows[1:], bulkRows) {
		muts := make([]rowMutation, 0, len(rest))
		for _, rw := range rest {
			muts = append(muts, rowMutation{table: rw.table, row: rw.row, mut: cm.commitMutation(rw, commitTS), deadline: cm.until, done: func(err error) {
				cm.c.own.rowDone(cm.startTS)
				watch.rowDone(err)
				if err == nil {
					cm.announce(rw, commitTS)
				} else {
					cm.c.cfg.Logger.Warn("phase two left to lock resolution", "table", rw.table, "start_ts", cm.startTS, "error", err)
				}
			}})
		}
		cm.c.bulk.add(ctx, muts...)
	}
}

// announce tells listeners and counters of the notify cells that a row now carries.
func (cm *commit) announce(rw *rowWrites, commitTS tso.Timestamp) {
	for _, w := range rw.writes {
		if w.observed {
			cm.c.notified(Notification{w.cell, commitTS})
		}
	}
	if rw == cm.rows[0] {
		for _, cell := range cm.weak {
			cm.c.notified(Notification{cell, commitTS})
		}
	}
}
