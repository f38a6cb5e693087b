package observers

import (
	"context"

	"github.com/gopercolator/percolator/tso"
)

// A repair (docs/internals/PROTOCOL.md, I24) removes the acknowledgments of runs, and notifies
// their cells again. A worker that lives through it must not believe what it remembers of these
// runs: it would erase the notifications.

// heedRepairs makes the queue forget the runs that a repair may have removed. Without knowledge of
// percolator_meta nothing is lost: neither is a notification erased then, nor a state stored.
func (w *Worker) heedRepairs(ctx context.Context) {
	m, err := w.engine.Meta.Known(ctx)
	if err != nil {
		return
	}
	for _, g := range m.Gaps {
		w.queue.forgetRuns(g.Until, w.coverage.taken)
	}
}

// forgetRuns makes all observers of the cells that the queue holds run for them again, after a
// repair that ended at until.
func (q *queue) forgetRuns(until tso.Timestamp, columns map[Column]*column) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until <= q.memory.repaired {
		return
	}
	q.memory.repaired = until
	q.memory.finished.Purge()
	q.memory.aside.Purge()
	for _, col := range columns {
		for _, e := range col.cells {
			for i := range e.tasks {
				e.tasks[i].ran, e.tasks[i].parked = 0, 0
				if e.engages(&e.tasks[i]) {
					col.runners[i].occupy(&e.tasks[i])
				}
			}
		}
	}
}

// gone is removed for callers that do not hold q.mu.
func (q *queue) gone(j job, out outcome) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.removed(j, out)
}

// removed reports whether a repair may have removed j's run, or what a run that has failed was for:
// that says nothing against the observer. A run that found no weak notification ends with the
// timestamp of what it looked for.
func (q *queue) removed(j job, out outcome) bool {
	if out.parks() {
		return out.began > 0 && out.began <= q.memory.repaired
	}
	return out.done() && out.through <= q.memory.repaired && (out.state == runCommitted || out.through != j.newest)
}
