// Package commit buffers the writes of a transaction and commits them in two phases. It sits on
// locks and reads, beneath the engine; the record on the primary alone says that a transaction
// committed.
package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Commit is the two-phase commit of section 2.2 of the paper, coordinated by the client:
//
//	prewrite every row                               all at once; a conflict ends it (I2)
//	commit_ts ← oracle                               after every prewrite was acknowledged (I5)
//	weak notifications @commit_ts                    before the commit: a crash would lose them (I11)
//	commit the primary's row, if it holds the lock   the commit point (I6)
//	commit the other rows                            in the background, after the answer (I7)
//
// A request whose outcome is unknown may have been applied. A prewrite is sent again. For a commit
// request the primary decides (I17): a record of the transaction means committed, its lock means
// that the same request is sent again with the same commit_ts, a rollback marker means aborted.
// Nothing at all means aborted too, unless the record may have been collected. outcome.go has the
// rest, and what happens after the lifetime of the requests.
//
// Rejected: answering the caller only after phase two. It would double the latency and promise
// nothing more, since a transaction that meets a secondary's lock finds the record on the primary.

// Committer begins transactions and commits them. It is safe for concurrent use.
type Committer struct {
	Store    *store.Store
	Bulk     *store.BulkWriter
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Dispatch *dispatch.Dispatcher
	Locks    *locks.Resolver
	Reads    *reads.Reader
	Journal  *journal.Appender
	Config   store.Settings

	Warm       *WarmGoroutines // for prewrites
	Recent     recentWrites    // for blind transactions
	contention contention
}

// commit is the commit of one transaction.
type commit struct {
	c       *Committer
	schema  *catalog.Catalog // by which the writes were prepared
	startTS tso.Timestamp
	started time.Time
	rows    []*rowWrites // the primary's row first
	primary *Write
	weak    []model.Cell
	ttl     time.Duration // of its locks, or longer: what refreshes go by
	// patience bounds the prewrite of a commit that several share, and has its abort erase locks
	// whatever becomes of the primary: the others' rows are not to wait for one that does not
	// answer. 0: the lifetime of requests bounds it.
	patience time.Duration
	// until is one lifetime after the commit timestamp arrived, before the last check of the
	// transaction's age. Nothing of the commit point, of giving it up and of phase two is sent
	// later (I14): the collector may have removed the record by then, and what would look like an
	// abort is none.
	until time.Time

	entry      *journal.Append     // nil: there is no journal
	appended   time.Time           // when others may first read it
	announced  Announcement        // of weak notifications to which entry may no longer lead
	toldWeakly bool                // weak notifications may have been written
	inFlight   *semaphore.Weighted // bytes of values in prewrite requests
	failed     atomic.Bool         // a row's prewrite has failed: the others stop
	mu         sync.Mutex
	outcome    map[*rowWrites]prewriteOutcome
}

func (cm *commit) id() locks.TxnID { return locks.TxnID{Primary: cm.primary.Cell, StartTS: cm.startTS} }

// Commit seals the transaction and commits it.
func (tx *Txn) Commit(ctx context.Context) (tso.Timestamp, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return 0, err
	}
	writes, weak, err := tx.seal()
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("percolator: commit not started: %w", err)
	}
	if len(writes) == 0 && len(weak) == 0 {
		return tx.StartTimestamp(), nil
	}
	c := tx.c
	ctx, span := c.Store.Trace.Start(ctx, "percolator.commit", "")
	span.Timestamp("percolator.start_timestamp", tx.StartTimestamp())
	span.Count("percolator.cells", len(writes))
	started := time.Now()
	ts, err := tx.commit(ctx, writes, weak)
	c.Store.Count.Ended(err)
	c.contention.note(err)
	c.Store.Count.Latency[telemetry.OpCommit].Add(time.Since(started))
	c.Store.Metrics.Transaction(ctx, time.Since(tx.since), err)
	if err == nil {
		span.Timestamp("percolator.commit_timestamp", ts)
	}
	span.Conflict(err)
	span.End(err)
	return ts, err
}

// seal ends the buffering phase.
func (tx *Txn) seal() (writes []*Write, weak []model.Cell, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, nil, errTxnDone()
	}
	tx.done = true
	for c := range tx.weak {
		weak = append(weak, c)
	}
	// A finished transaction does not need its writes, and a large one frees memory.
	tx.writes, tx.sorted, tx.indexes = nil, nil, nil
	return tx.order, weak, nil
}

func (tx *Txn) commit(ctx context.Context, writes []*Write, weak []model.Cell) (tso.Timestamp, error) {
	if err := tx.c.contention.check(tx.opts.turns, tx.StartTimestamp(), writes); err != nil {
		return 0, err
	}
	cm, err := tx.prepare(ctx, writes, weak)
	if err != nil {
		return 0, err
	}
	if len(cm.rows) == 0 {
		return cm.notifyOnly(ctx)
	}
	if with := tx.leave(); with != nil {
		if ts, shared, err := with.commit(ctx, cm); shared {
			tx.shared = err == nil
			return ts, err
		}
		if err := cm.checkAge(ctx); err != nil { // again: it has waited for the others
			return 0, err
		}
	}
	ts, err := cm.run(ctx)
	if tx.ahead && outdated(err) { // since the prewrites began
		err = fmt.Errorf("percolator: transaction %d: %w: its start timestamp, requested before it began, is too old by now; run it again", cm.startTS, model.ErrConflict)
	}
	return ts, err
}

// checkAge refuses to commit where the collector may already be at work (I16). The age is the
// greater of two, since this process's clock stands still while its machine is suspended. Before
// the commit point the oracle's time is at least commit_ts.
func (cm *commit) checkAge(ctx context.Context) error {
	if err := cm.c.checkAge(cm.startTS, cm.started); err != nil {
		return err
	}
	if err := cm.c.Meta.CheckRead(ctx, cm.startTS); err != nil {
		return err
	}
	if err := cm.c.Meta.CheckCommit(ctx, cm.startTS, cm.tables); err != nil {
		return err
	}
	// The prewritten cells might lack notifications or index entries (I10).
	return cm.c.checkSchema(cm.schema, cm.startTS)
}

// checkSchema refuses what was done for a transaction by a schema that is known to have changed.
func (c *Committer) checkSchema(by *catalog.Catalog, startTS tso.Timestamp) error {
	if c.Meta.Catalog.Load() != by {
		return fmt.Errorf("percolator: transaction %d: %w: the schema changed during the commit; run it again", startTS, model.ErrConflict)
	}
	return nil
}

// tables yields the table of everything that the transaction writes or notifies; one may come
// again.
func (cm *commit) tables(yield func(string) bool) {
	last := ""
	for _, rw := range cm.rows {
		if rw.table != last && !yield(rw.table) {
			return
		}
		last = rw.table
	}
	for _, c := range cm.weak {
		if c.Table != last && !yield(c.Table) {
			return
		}
		last = c.Table
	}
}

func (c *Committer) checkAge(ts tso.Timestamp, started time.Time) error {
	if age := max(time.Since(started), c.Meta.Age(ts)); age > c.Config.Retention/2 {
		return fmt.Errorf("percolator: %w: the transaction began %v ago, more than half of the retention of %v", model.ErrSnapshotTooOld, age.Round(time.Second), c.Config.Retention)
	}
	return nil
}

// run is the protocol for a transaction with writes.
func (cm *commit) run(ctx context.Context) (tso.Timestamp, error) {
	cm.c.Locks.Own.Begin(cm.startTS)
	commitTS, err := cm.firstPhase(ctx)
	cm.c.Locks.Own.Decide(cm.startTS, commitTS, len(cm.rows)-1)
	if err == nil {
		cm.phaseTwo(ctx, commitTS)
	}
	return commitTS, err
}

// firstPhase ends with the commit point.
func (cm *commit) firstPhase(ctx context.Context) (tso.Timestamp, error) {
	stop := cm.keepAlive(ctx)
	defer stop()
	if err := cm.journal(ctx); err != nil {
		return 0, err
	}
	if err := cm.tracedPrewrite(ctx); err != nil {
		return 0, cm.abort(ctx, err)
	}
	if err := cm.entry.Wait(ctx); err != nil { // before the commit timestamp is asked for (J1)
		return 0, cm.abort(ctx, err)
	}
	cm.dropValues()
	asked := time.Now()
	commitTS, deadline, err := cm.timestamp(ctx)
	cm.c.Store.Metrics.Phase(ctx, "timestamp", asked, err)
	if err != nil {
		return 0, cm.abort(ctx, err)
	}
	if commitTS <= cm.startTS {
		return 0, cm.abort(ctx, fmt.Errorf("percolator: the oracle went back: it gave %d after %d (I1); stop it and look at its store", commitTS, cm.startTS))
	}
	until := time.Now().Add(cm.c.Store.Timing.RequestLifetime) // others wait from commitTS on (I23)
	if err := cm.notifyWeak(ctx, commitTS, deadline); err != nil {
		return 0, cm.abort(ctx, err)
	}
	cm.until = until
	if err := cm.checkAge(ctx); err != nil {
		return 0, cm.abort(ctx, err)
	}
	stop()
	if err := cm.commitPoint(ctx, commitTS); err != nil {
		return 0, err
	}
	return commitTS, nil
}

// timestamp is the commit timestamp, asked for when every row is locked (I5), and until when the
// transaction may notify weakly. An export above the timestamp waits a lifetime for that, and the
// answer may be on its way for long: the time begins before. The entry leads to notifications for a
// lifetime, as a look after that takes those of an aborted transaction for done (J4). Where the
// prewrite took much of it, another entry leads to them.
func (cm *commit) timestamp(ctx context.Context) (ts tso.Timestamp, deadline time.Time, err error) {
	begins, lifetime := time.Now(), cm.c.Store.Timing.RequestLifetime
	if cm.entry != nil && len(cm.weak) > 0 {
		if begins.Sub(cm.appended) > lifetime/2 {
			cm.announced, err = cm.c.Announce(ctx, WeakRows(cm.weak))
			return cm.announced.TS, cm.announced.Deadline, err
		}
		begins = cm.appended
	}
	ts, err = cm.c.Clock.Next(ctx)
	return ts, begins.Add(lifetime), err
}

func (cm *commit) tracedPrewrite(ctx context.Context) error {
	started := time.Now()
	ctx, span := cm.c.Store.Trace.Start(ctx, "percolator.prewrite", "")
	span.Count("percolator.rows", len(cm.rows))
	if cm.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cm.patience)
		defer cancel()
	}
	err := cm.prewrite(ctx)
	cm.c.Store.Metrics.Phase(ctx, "prewrite", started, err)
	span.End(err)
	return err
}

// commitPoint commits the primary's row. afterLifetime decides what stays open within its lifetime.
func (cm *commit) commitPoint(ctx context.Context, commitTS tso.Timestamp) error {
	started := time.Now()
	pctx, span := cm.c.Store.Trace.Start(ctx, "percolator.commit_primary", cm.primary.Cell.Table)
	err := cm.commitPrimary(pctx, commitTS)
	if errors.Is(err, model.ErrOutcomeUnknown) && ctx.Err() == nil && !time.Now().Before(cm.until) {
		err = cm.afterLifetime(pctx, err)
	}
	cm.c.Store.Metrics.Phase(pctx, "primary", started, err)
	span.End(err)
	return err
}

// dropValues lets go of the values that prewrite has stored: the rest of the commit names cells
// only.
func (cm *commit) dropValues() {
	for _, rw := range cm.rows {
		for _, w := range rw.writes {
			w.Value = nil
		}
	}
}

// commitMutation commits a whole row. If an acknowledgment in the row leaves no observer work, it
// first erases the notifications at or below start_ts only: a change that came during the run
// survives (I13).
func (cm *commit) commitMutation(rw *rowWrites, commitTS tso.Timestamp) *store.Mutation {
	mut := store.NewMutation(len(rw.erase) + 2*len(rw.writes))
	for _, col := range rw.erase {
		mut.ClearNotify(col, cm.startTS)
	}
	for _, w := range rw.writes {
		mut.Commit(w.Cell.Column, w.Kind, cm.startTS, commitTS, w.observed, w.Life)
	}
	return mut
}

// commitPrimary passes the commit point, or finds out that it cannot.
func (cm *commit) commitPrimary(ctx context.Context, commitTS tso.Timestamp) error {
	if err := ctx.Err(); err != nil { // not sent: a definite abort
		return cm.abort(ctx, fmt.Errorf("percolator: commit of transaction %d: %w", cm.startTS, err))
	}
	rw, p := cm.rows[0], cm.primary.Cell
	mut := cm.commitMutation(rw, commitTS)
	lifetime, cancel := context.WithDeadline(ctx, cm.until)
	defer cancel()
	pause, sent := retry.NewBackoff(5*time.Millisecond, time.Second), false
	for {
		held, err := cm.c.Store.CheckAndMutate(lifetime, p.Table, p.Row, store.HeldLock(p.Column, cm.startTS), mut, nil)
		if err == nil && held {
			cm.committed(commitTS)
			return nil
		}
		if sent = sent || !store.NotSent(err); !sent && ctx.Err() != nil { // it waited for its turn
			return cm.abort(ctx, err)
		}
		resend, err := cm.afterCommitRequest(lifetime, err)
		if !resend {
			return err
		}
		if pause.Wait(lifetime) != nil {
			return cm.unknown(lifetime, err)
		}
	}
}
