package observers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// MaxBatchCells is the most that [MaxCells] allows. Beyond it NewWorker returns ErrInvalidArgument.
const MaxBatchCells = 1000

// defaultMaxCells is the largest batch without MaxCells.
const defaultMaxCells = 100

// BatchFunc is an observer that runs for many changed cells of its column at once. changes has one
// or more of them, each of another row, in row order, and none that the observer has acknowledged
// already. What holds for a [Func] holds for it; it must do the work of all changes, as the worker
// commits tx together with the acknowledgments of all of them. It may be called again for any
// subset of the same changes.
type BatchFunc func(ctx context.Context, tx *percolator.Txn, changes []Change) error

// ObserveBatch registers f like [Registry.Observe] as an observer of batches: a worker gathers
// dirty cells of the column ([MaxCells], [MaxWait]) and runs f for them in one transaction, whose
// requests they share.
//
// When such a run fails, panics, conflicts or takes too long, the worker cuts the batch in halves
// and runs each of them at once in a transaction of its own, and so on. So of n cells a bad one
// costs about 2·log2(n) runs more, the others are done, and it fails alone: only then does the
// failure count, as one of a [Func] does (Config.MaxAttempts). A cell that has failed alone runs
// alone until it succeeds. If the store did not answer, or the outcome of the commit is unknown,
// the batch stays whole and the worker repeats it after a pause. [Snooze] postpones all changes of
// the call.
//
// A bisection that has taken longer than log2(n)+2 timeouts ends: then the rest run cell by cell.
func (r *Registry) ObserveBatch(name, table, column string, f BatchFunc, opts ...Option) {
	r.register(&observer{name: name, table: table, column: column, f: f, batch: true,
		options: options{timeout: defaultTimeout, maxCells: defaultMaxCells}}, opts)
}

// TypedChange is a change with its decoded value, or the zero T for a deletion or a weak
// notification. Change.Value has the bytes.
type TypedChange[T any] struct {
	Change
	Value T
}

// ObserveBatch registers f like [Registry.ObserveBatch] for a typed column. A cell whose value
// cannot be decoded fails alone with percolator.ErrCorrupt, and costs the others one run. A column
// of another type is refused, or fails, as that of [Observe].
func ObserveBatch[T any](r *Registry, name string, col percolator.Column[T],
	f func(ctx context.Context, tx *percolator.Txn, changes []TypedChange[T]) error, opts ...Option,
) {
	var typed BatchFunc
	if f != nil {
		typed = func(ctx context.Context, tx *percolator.Txn, changes []Change) error {
			decoded := make([]TypedChange[T], len(changes))
			var bad undecodable
			for i, ch := range changes {
				v, err := decode(tx, col, ch)
				if err != nil {
					bad = undecodable{append(bad.at, i), errors.Join(bad.err, err)}
				}
				decoded[i] = TypedChange[T]{ch, v}
			}
			if bad.err != nil {
				return bad
			}
			return f(ctx, tx, decoded)
		}
	}
	r.ObserveBatch(name, col.Table, col.Name, typed, append(slices.Clip(opts), ofType(col.Type()))...)
}

// undecodable is the failure of a batch some of whose values cannot be decoded.
type undecodable struct {
	at  []int // of the changes, in order
	err error
}

func (u undecodable) Error() string { return fmt.Sprintf("%d values: %v", len(u.at), u.err) }

func (u undecodable) Unwrap() error { return u.err }

// MaxCells limits the cells of one batch: 1 to [MaxBatchCells]. The default is 100. A batch also
// ends where the values of its cells exceed 16 MiB.
func MaxCells(n int) Option { return func(o *options) { o.maxCells = n } }

// MaxWait is how long a batch waits for more cells: it starts when it has [MaxCells] of them, or
// when the first one has been due for d. A cell is due when its [Collapse] or pause has ended. With
// 0, the default, a batch starts as soon as the worker has a goroutine for it, and takes what is
// due by then.
func MaxWait(d time.Duration) Option { return func(o *options) { o.maxWait = d } }

// gathering is the cells of a batch observer that are due. queue.mu guards it.
type gathering struct {
	cells fifo[*entry] // entry.due says since when each of them waits
	ready bool         // queue.ready holds one item for the batch, or it is being taken
	timer *time.Timer  // fires when the first cell has waited long enough; nil: none has had to
}

// joins reports whether task i of an entry runs in batches.
func (e *entry) joins(i int) bool { return e.column.runners[i].maxCells > 1 && !e.tasks[i].alone }

// gather has an entry, whose task i is due, wait for its batch.
func (q *queue) gather(e *entry, i int, now time.Time) {
	rn := e.column.runners[i]
	e.due = now
	if len(rn.awaits) > 0 { // it may have been held all the while
		e.due = e.tasks[i].due
	}
	rn.gathered.cells.push(e)
	q.readyBatch(rn, now)
	if q.backlogOf(rn) > 0 {
		signal(q.handOver.backlog)
	}
}

// readyBatch makes the gathered cells of an observer ready if there is a slot for them and they
// have waited long enough, or are enough.
func (q *queue) readyBatch(rn *runner, now time.Time) {
	g := &rn.gathered
	if g.ready || g.cells.len() == 0 || rn.slots() <= 0 {
		return
	}
	if wait := g.cells.first().due.Add(rn.maxWait).Sub(now); wait > 0 && g.cells.len() < rn.maxCells {
		if g.timer == nil {
			g.timer = time.AfterFunc(wait, func() { q.ripenBatch(rn) })
		} else {
			g.timer.Reset(wait)
		}
		return
	}
	g.ready = true
	q.ready.push(item{batch: rn}, rn.headStart, now)
	q.work.Signal()
}

// ripenBatch is called when the first gathered cell has waited long enough.
func (q *queue) ripenBatch(rn *runner) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.phase != queueClosed {
		q.readyBatch(rn, time.Now())
	}
}

// takeBatch starts a run of the gathered cells, in row order. Without a slot, or if meanwhile
// nothing is left to do for them or they have to wait, it returns nil. A batch that need not wait
// for other observers takes along cells that would: they cost it little.
func (q *queue) takeBatch(rn *runner, now time.Time) *run {
	g := &rn.gathered
	g.ready = false
	if rn.slots() <= 0 { // who leaves one readies the batch again
		return nil
	}
	r := &run{runner: rn}
	for n := g.cells.len(); n > 0 && len(r.jobs) < rn.maxCells; n-- {
		e := g.cells.pop()
		i := slices.Index(e.column.runners, rn)
		if !e.pending(&e.tasks[i]) || e.readyAt(i, now).After(now) {
			q.schedule(e, now)
			continue
		}
		q.delay.note(now.Sub(e.readied)-rn.maxWait, now)
		q.startJob(r, e, i)
	}
	if len(r.jobs) == 0 {
		q.readyBatch(rn, now)
		return nil
	}
	q.takeAlong(r)
	slices.SortFunc(r.jobs, func(a, b job) int { return cmp.Compare(a.entry.row, b.entry.row) })
	q.readyBatch(rn, now)
	return r
}

// closeBatch forgets the gathered cells of an observer.
func (q *queue) closeBatch(rn *runner) {
	if rn.gathered.timer != nil {
		rn.gathered.timer.Stop()
	}
	for rn.gathered.cells.len() > 0 {
		q.forget(rn.gathered.cells.pop())
	}
}
