package commit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Prewrite locks every cell that the transaction writes and puts its data beside the lock (lines
// 25–41 of Figure 6 of the paper). The paper's row transaction – read, then write – is one
// CheckAndMutateRow for each row here, all rows at once: the predicate is the conflict check, and
// nothing is written when it matches (I2).
//
// The predicate leaves out the transaction's own lock, so the same request may be sent again after
// an ambiguous error (I3). Only the first attempt, before which no lock of its own can exist, asks
// for any lock, as that is cheaper. The predicate includes rollback markers, so a request that
// arrives after the transaction was rolled back fails (I4).
//
// Rejected: prewriting the primary first and the secondaries after it, as the paper's pseudo-code
// does. The marker makes the order unnecessary and saves one round trip.

// chunkBytes bounds the data of one prewrite request, prewriteBytes that of all that one commit has
// in flight: each is a second copy of its values, and many large rows at once would double what the
// transaction holds.
const (
	chunkBytes    = 4 << 20
	prewriteBytes = 16 << 20
)

// rowWrites is what a transaction writes in one row.
type rowWrites struct {
	table, row string
	writes     []*Write
	erase      []string // columns whose notify cells ≤ start_ts go with the commit (I13)
	names      int      // bytes of the commit's request, which names each column up to three times
}

// commitBytes bounds the commit of a row, which is one request.
const commitBytes = 64 << 20

// add adds a write.
func (rw *rowWrites) add(w *Write) error {
	const perColumn = 3 * 64 // more than Protocol Buffers add
	rw.writes = append(rw.writes, w)
	rw.names += 3*len(w.Cell.Column) + perColumn
	switch {
	case len(rw.writes) > model.MaxColumnsPerRow:
		return catalog.CellError(model.ErrTooLarge, w.Cell, "the transaction writes more than %d columns of the row", model.MaxColumnsPerRow)
	case rw.names > commitBytes:
		return catalog.CellError(model.ErrTooLarge, w.Cell, "the transaction writes so many columns of the row, with such long names, that its commit would be a request of more than %d bytes", commitBytes)
	}
	return nil
}

// chunks cuts the writes of a row to what one request may hold, almost always one chunk; span: the
// filter does not name the columns one by one.
func (rw *rowWrites) chunks(span bool) [][]*Write {
	var out [][]*Write
	filter, bytes := 0, 0
	for _, w := range rw.writes {
		f, b := store.PatternBytes(w.Cell.Column), len(w.Value)+2*len(w.Cell.Column)
		last := len(out) - 1
		if last < 0 || (!span && filter+f > model.MaxFilterBytes) || bytes+b > chunkBytes || 2*len(out[last]) >= model.MaxMutationsPerRow-2 {
			out = append(out, nil)
			filter, bytes, last = 0, 0, last+1
		}
		out[last] = append(out[last], w)
		filter, bytes = filter+f, bytes+b
	}
	return out
}

func columnsOf(ws []*Write) []string {
	return ordered.Map(ws, func(w *Write) string { return w.Cell.Column })
}

// prewriteOutcome is what is known of one row after prewrite.
type prewriteOutcome int

const (
	notSent prewriteOutcome = iota
	refused                 // the store refused all requests of the row, and left nothing there
	touched                 // a lock of the transaction is or may be there
)

// prewriteGrace is how long a failed prewrite waits for its requests in flight, as a part of the
// time that a request may take. One that is cut off may land after the clean-up and leave a lock
// for others to resolve, so a moment is worth it.
const prewriteGrace = 10

// prewrite locks all rows, at most MaxParallelism at once. It returns the first conflict or
// failure; then it sends no further row, repeats nothing, and waits a little for requests in
// flight.
func (cm *commit) prewrite(ctx context.Context) error {
	if len(cm.rows) == 1 {
		return cm.prewriteRow(ctx, cm.rows[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &prewriting{cm: cm, cancel: cancel}
	helpers := 0
	for rw, left := p.take(); rw != nil; rw, left = p.take() {
		// Again before each row: other commits may have had all goroutines.
		for helpers < min(left, cm.c.Config.MaxParallelism)-1 && p.hire(ctx) {
			helpers++
		}
		p.row(ctx, rw)
	}
	p.helping.Wait()
	return p.failure
}

// prewriting is a prewrite of several rows in flight. The committer and its helpers take a row each
// until all are taken or one has failed. An errgroup would do that with goroutines of its own, and
// end the requests of the others at the first failure.
type prewriting struct {
	cm      *commit
	taken   atomic.Int64       // the rows before this one; at the end, so many more as tried to
	helping sync.WaitGroup     // helpers at work
	fail    sync.Once          // sets failure
	failure error              // the first; read when nobody is at work
	cancel  context.CancelFunc // ends the requests in flight
}

// take returns a row that nobody has taken, nil if there is none to send, and how many there were.
func (p *prewriting) take() (rw *rowWrites, left int) {
	i := int(p.taken.Add(1)) - 1
	if i >= len(p.cm.rows) || p.cm.failed.Load() {
		return nil, 0
	}
	return p.cm.rows[i], len(p.cm.rows) - i
}

// hire starts a helper; false: all goroutines are busy.
func (p *prewriting) hire(ctx context.Context) bool {
	p.helping.Add(1)
	hired := p.cm.c.Warm.run(func() {
		defer p.helping.Done()
		for rw, _ := p.take(); rw != nil; rw, _ = p.take() {
			p.row(ctx, rw)
		}
	})
	if !hired {
		p.helping.Done()
	}
	return hired
}

// row prewrites a row unless another has failed since it was taken.
func (p *prewriting) row(ctx context.Context, rw *rowWrites) {
	if p.cm.failed.Load() {
		return
	}
	if err := p.cm.prewriteRow(ctx, rw); err != nil {
		p.fail.Do(func() {
			p.failure = err
			p.cm.failed.Store(true)
			time.AfterFunc(p.cm.c.Store.Timing.RequestLifetime/prewriteGrace, p.cancel)
		})
	}
}

func (cm *commit) prewriteRow(ctx context.Context, rw *rowWrites) error {
	exact := len(rw.writes) <= fewColumns
	for i, chunk := range rw.chunks(!exact) {
		if err := cm.prewriteBounded(ctx, rw, chunk, exact, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// prewriteBounded waits until the chunk has room among the requests in flight.
func (cm *commit) prewriteBounded(ctx context.Context, rw *rowWrites, chunk []*Write, exact, first bool) error {
	size := int64(0)
	for _, w := range chunk {
		size += int64(len(w.Value))
	}
	size = min(size, prewriteBytes) // a larger value goes alone
	waited := !cm.inFlight.TryAcquire(size)
	if waited {
		if err := cm.inFlight.Acquire(ctx, size); err != nil {
			return err
		}
	}
	defer cm.inFlight.Release(size)
	if waited && cm.failed.Load() {
		return nil // another row's conflict has ended the commit meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, cm.c.Store.Timing.RequestLifetime)
	defer cancel()
	if err := cm.checkAge(ctx); err != nil { // a large transaction may have started long ago
		return err
	}
	if exact {
		return cm.prewriteChunk(ctx, rw, chunk, true)
	}
	return cm.prewriteSpan(ctx, rw, chunk, first)
}

// fewColumns is how many columns of a row a filter names one by one at most.
const fewColumns = 4

// prewriteSpan prewrites many columns of one row with a predicate that spans all columns from the
// first to the last of them, which is short however many they are. If anything in the span
// conflicts, even in a column that the transaction does not write, the exact predicates decide. The
// span may cover columns of the row's earlier chunks, so only the first chunk may ask for any lock.
func (cm *commit) prewriteSpan(ctx context.Context, rw *rowWrites, chunk []*Write, first bool) error {
	columns := columnsOf(chunk)
	conflicts, err := cm.c.Store.CheckAndMutateOnMiss(ctx, rw.table, rw.row, store.ConflictSpan(slices.Min(columns), slices.Max(columns), cm.startTS, first),
		2*len(chunk), func() *store.Mutation { return cm.prewriteMutation(chunk) })
	if err == nil && !conflicts {
		cm.note(rw, touched)
		return nil
	}
	if err != nil && retry.Ambiguous(err) {
		cm.note(rw, touched)
	}
	for _, part := range (&rowWrites{writes: chunk}).chunks(false) {
		if err := cm.prewriteChunk(ctx, rw, part, false); err != nil {
			return err
		}
	}
	return nil
}

// prewriteChunk sends one request until its outcome is known. It resolves the locks of others that
// need no waiting; a live one is a conflict. first: no request for these cells has been sent
// before.
func (cm *commit) prewriteChunk(ctx context.Context, rw *rowWrites, chunk []*Write, first bool) error {
	columns := columnsOf(chunk)
	predicate := store.Conflict(columns, cm.startTS, first)
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for ; ; predicate = store.Conflict(columns, cm.startTS, false) {
		if err := ctx.Err(); err != nil {
			return retry.WithContext(ctx, err)
		}
		conflict, err := cm.c.Store.CheckAndMutateOnMiss(ctx, rw.table, rw.row, predicate, 2*len(chunk), func() *store.Mutation { return cm.prewriteMutation(chunk) })
		switch {
		case err == nil && !conflict:
			cm.note(rw, touched)
			return nil
		case err == nil:
			cm.note(rw, refused)
			seen, err := cm.resolveConflicts(ctx, rw, columns)
			if err != nil {
				if first && !errors.Is(err, model.ErrConflict) {
					// The lock found may be our own: the request may have been delivered twice.
					cm.note(rw, touched)
				}
				return err
			}
			if !seen {
				_ = pause.Wait(ctx)
			}
		case !retry.Ambiguous(err):
			cm.note(rw, refused)
			return err
		case errors.Is(err, model.ErrClosed):
			cm.note(rw, touched)
			return err
		default:
			cm.note(rw, touched)
			if cm.failed.Load() || pause.Wait(ctx) != nil {
				return retry.WithContext(ctx, err)
			}
		}
	}
}

// prewriteMutation is data@start_ts and lock@start_ts for each write. Each attempt takes the lock's
// time anew.
func (cm *commit) prewriteMutation(chunk []*Write) *store.Mutation {
	mut := store.NewMutation(2 * len(chunk))
	for _, w := range chunk {
		if w.Kind == layout.KindPut {
			mut.Put(layout.DataFamily, w.Cell.Column, cm.startTS, w.Value)
		}
		mut.Put(layout.LockFamily, w.Cell.Column, cm.startTS, cm.lock(w))
	}
	return mut
}

// lock is the lock that a write leaves, as it is stored.
func (cm *commit) lock(w *Write) []byte {
	l := layout.LockRecord{StartTS: cm.startTS, Kind: w.Kind, Primary: cm.primary.Cell, Placed: cm.now(), TTL: max(cm.ttl, cm.c.lockTTL()),
		Observed: w.observed, Session: cm.c.Locks.Sessions.Own(), Life: w.Life}
	return l.Encode()
}

// now is the oracle's time as far as this process can tell: the start timestamp plus the monotonic
// time since the client asked for it.
func (cm *commit) now() tso.Timestamp { return cm.startTS.Add(time.Since(cm.started)) }

// resolveConflicts looks at what refused a prewrite. It returns nil if the request should be sent
// again because every conflicting lock has been resolved, or is gone already (seen is false), and a
// *ConflictError if another transaction has won or is alive.
func (cm *commit) resolveConflicts(ctx context.Context, rw *rowWrites, columns []string) (seen bool, err error) {
	rv, err := cm.c.Store.ReadVersions(ctx, rw.table, rw.row, store.RecordsAndLocks(columns, 1))
	if err != nil {
		return false, err
	}
	var met []*locks.Met
	for _, col := range rv.Columns() {
		v, cell := rv[col], model.Cell{Table: rw.table, Row: rw.row, Column: col}
		if v.Corrupt != nil {
			return false, v.Corrupt
		}
		if err := cm.foreignWrite(cell, v); err != nil {
			return false, err
		}
		for _, l := range v.Locks {
			seen = true
			if l.StartTS == cm.startTS {
				cm.note(rw, touched) // the request was delivered twice
				continue
			}
			met = append(met, &locks.Met{Cell: cell, Lock: l})
		}
	}
	if err := cm.c.Locks.ResolveEach(ctx, met, locks.SeenJustNow); err != nil {
		return seen, err
	}
	for _, m := range met {
		switch {
		case m.Err != nil:
			return seen, m.Err
		case m.Resolution == model.LockAlive:
			return seen, cm.conflict(m.Cell, model.ConflictError{OtherTS: m.Lock.StartTS, Locked: true})
		case m.CommitTS > cm.startTS:
			return seen, cm.conflict(m.Cell, model.ConflictError{OtherTS: m.CommitTS})
		}
	}
	return seen, nil
}

// foreignWrite reports a write record at or after the start timestamp.
func (cm *commit) foreignWrite(cell model.Cell, v *layout.Versions) error {
	for _, w := range v.Writes {
		switch {
		case w.CommitTS < cm.startTS:
		case w.Kind == layout.KindRollback && w.StartTS == cm.startTS:
			return cm.conflict(cell, model.ConflictError{})
		default:
			return cm.conflict(cell, model.ConflictError{OtherTS: w.CommitTS})
		}
	}
	return nil
}

// conflict completes a conflict on a cell.
func (cm *commit) conflict(c model.Cell, e model.ConflictError) error {
	e.StartTS = cm.startTS
	for _, rw := range cm.rows {
		if rw.table != c.Table || rw.row != c.Row {
			continue
		}
		for _, w := range rw.writes {
			if w.Cell == c {
				return conflictOf(w, e)
			}
		}
	}
	e.Cell = c
	return &e
}

// note remembers what is known of a row; once touched it stays so.
func (cm *commit) note(rw *rowWrites, o prewriteOutcome) {
	cm.mu.Lock()
	defer cm.mu.Unlock()
	if cm.outcome[rw] != touched {
		cm.outcome[rw] = o
	}
}
