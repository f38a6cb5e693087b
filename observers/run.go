package observers

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator"
)

// A goroutine takes a job, or the jobs of a batch, and makes a run of it: a transaction in which
// it calls the observer. It cuts a batch that fails in halves until the bad cell is alone. Runs for
// an observed column are in ack.go, those for a weak one in weak.go.

// run is what a goroutine does with a slot of an observer: a job, or those of a batch, in as many
// transactions as it takes. Each part of it is one transaction's.
type run struct {
	runner *runner
	part   []job   // under way
	parts  [][]job // still to come, the next one last
	halves bool    // a part has failed and was cut up
	until  time.Time
}

func newRun(j job) *run {
	part := j.batch
	if part == nil {
		part = []job{j}
	}
	timeouts := bits.Len(uint(len(part))) + 1 // each part that holds one hanging cell, and one more
	return &run{runner: j.runner, parts: [][]job{part}, until: time.Now().Add(time.Duration(timeouts) * j.runner.timeout)}
}

// next takes up the next part.
func (r *run) next() bool {
	last := len(r.parts) - 1
	if last < 0 {
		return false
	}
	r.part, r.parts = r.parts[last], r.parts[:last]
	return true
}

// all gives every job of the part the same outcome.
func (r *run) all(out outcome) []outcome { return slices.Repeat([]outcome{out}, len(r.part)) }

// perform runs the parts of r. It reports whether the store did not answer the last of them. ctx
// ends when the worker stops, runs when it has drained: what is left of a batch then is for others.
func (w *Worker) perform(ctx, runs context.Context, r *run) (blameless bool) {
	for first := !r.halves; r.next(); first = false {
		switch {
		case !first && ctx.Err() != nil:
			w.putBack(r.part, outcome{blameless: true})
		case !first && time.Now().After(r.until):
			w.putBack(r.part, outcome{alone: true, due: time.Now()})
		default:
			blameless = w.endPart(runs, r, w.runPart(runs, r))
		}
	}
	return blameless
}

// putBack ends jobs that were not tried.
func (w *Worker) putBack(jobs []job, out outcome) {
	for _, j := range jobs {
		w.queue.finish(j, out)
	}
}

// end ends jobs of which each, or the transaction of all, had the outcome.
func (w *Worker) end(ctx context.Context, out outcome, jobs ...job) {
	for _, j := range jobs {
		w.queue.finish(j, w.record(ctx, j, out))
	}
}

// endPart ends the jobs of the part that are over. If it has failed it is cut up, unless it is one
// cell, or the store is to blame.
func (w *Worker) endPart(ctx context.Context, r *run, outs []outcome) (blameless bool) {
	var unread, failed []job
	var failure outcome
	counted := false
	for i, j := range r.part {
		out := outs[i]
		if (out.committed || out.contended) && !counted { // one transaction, whatever its cells
			w.queue.mu.Lock()
			r.runner.count(out)
			w.queue.mu.Unlock()
			counted = true
		}
		out.counted = true
		switch {
		case out.unread:
			unread = append(unread, j)
		case out.start == 0 && !out.parked && !out.dropped:
			failed, failure = append(failed, j), out
		default:
			w.end(ctx, out, j)
		}
	}
	if len(unread) > 0 {
		r.parts = append(r.parts, unread)
	}
	switch {
	case len(failed) <= 1:
		w.end(ctx, failure, failed...)
	case failure.snoozed:
		failure.due = time.Now().Add(failure.pause)
		w.end(ctx, failure, failed...)
	case failure.blameless:
		failure.due = time.Now().Add(w.queue.sharedPause(failed))
		w.end(ctx, failure, failed...)
	default:
		r.halves = true
		r.parts = append(r.parts, cutUp(failed, failure.undecodable)...)
	}
	return failure.blameless
}

// cutUp divides the jobs of a part that has failed: in halves, or so that each of the bad ones is
// alone. The last one runs first.
func cutUp(jobs []job, bad []int) (parts [][]job) {
	if len(bad) == 0 {
		half := len(jobs) / 2
		return [][]job{jobs[half:], jobs[:half]}
	}
	var rest []job
	for i := range jobs {
		if slices.Contains(bad, i) {
			parts = append(parts, jobs[i:i+1])
		} else {
			rest = append(rest, jobs[i])
		}
	}
	if len(rest) > 0 {
		parts = append(parts, rest)
	}
	return parts
}

// errGoexit is the failure of an observer that ended its goroutine.
var errGoexit = errors.New("the observer called runtime.Goexit")

// PanicError is the failure of an observer that panicked.
type PanicError struct {
	Observer string // "" if the delivery of a queue panicked
	Value    string // the value of the panic as text, at most 256 bytes
	Stack    string // of the goroutine, at most 4 KiB
}

// Error returns the value of the panic. The worker wraps it with the names of observer, table and
// column.
func (e *PanicError) Error() string { return "panicked: " + e.Value }

// runPart makes one attempt at the part of r that is under way, and returns the outcome of each
// job.
func (w *Worker) runPart(ctx context.Context, r *run) (outs []outcome) {
	if w.dropped(r.part[0].entry.column) {
		return r.all(outcome{dropped: true})
	}
	ctx, cancel := context.WithTimeout(ctx, r.runner.timeout)
	defer cancel()
	begun := time.Now()
	ctx, span := w.startRun(ctx, r)
	defer func() { w.endRun(ctx, r, span, begun, outs) }()
	if r.part[0].entry.column.weak {
		return w.runWeak(ctx, r)
	}
	return w.runAcknowledged(ctx, r)
}

// attempt calls the observer in tx and commits it.
func (w *Worker) attempt(ctx context.Context, r *run, tx *commit.Txn, changes []Change) outcome {
	c := &r.runner.counters
	c.attempts.Add(1)
	if r.again() {
		c.retries.Add(1)
	}
	if err := call(ctx, r.runner.observer, (*percolator.Txn)(tx), changes); err != nil {
		var off snooze
		if errors.As(err, &off) && !errors.Is(err, percolator.ErrConflict) {
			c.snoozes.Add(1)
			return outcome{snoozed: true, pause: off.pause}
		}
		return w.failed(r, err, stageObserver)
	}
	if _, err := tx.Commit(ctx); err != nil {
		return w.failed(r, err, stageCommit)
	}
	c.runs.Add(1)
	c.cells.Add(int64(len(changes)))
	w.countBatch(ctx, r.runner, len(changes))
	return outcome{start: tx.StartTimestamp(), committed: true}
}

// again reports whether an attempt for the same changes has failed before.
func (r *run) again() bool { return r.halves || r.part[0].attempt > 1 }

// call turns a panic into an error.
func call(ctx context.Context, o *observer, tx *percolator.Txn, changes []Change) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{o.name, clip(fmt.Sprint(r), 256), clip(string(debug.Stack()), 4096)}
		}
	}()
	(*commit.Txn)(tx).Lend()
	return o.f(ctx, tx, changes)
}

func clip(s string, n int) string { return s[:min(n, len(s))] }

// stage is where an attempt failed.
type stage uint8

const (
	stagePrepare  stage = iota // before the observer was called
	stageObserver              // in the observer
	stageCommit
)

// failed classifies, counts and logs a failure of the part of r that is under way.
func (w *Worker) failed(r *run, err error, at stage) outcome {
	rn, j := r.runner, r.part[0]
	out := outcome{
		err:       fmt.Errorf("observer %q on column %q of table %q: %w", rn.name, rn.column, rn.table, err),
		conflict:  errors.Is(err, percolator.ErrConflict),
		blameless: blameless(err, at) && !ofOneCell(r, err),
	}
	var conflict *percolator.ConflictError
	if errors.As(err, &conflict) {
		out.contended, out.locked = !isAck(conflict.Cell), conflict.Locked
	}
	var bad undecodable
	if errors.As(err, &bad) {
		out.undecodable = bad.at
	}
	kind := "error"
	var panicked *PanicError
	switch {
	case out.conflict:
		rn.counters.conflicts.Add(1)
		kind = "conflict"
	case errors.As(err, &panicked):
		rn.counters.panics.Add(1)
		kind = "panic"
	default:
		rn.counters.errors.Add(1)
		if errors.Is(err, context.DeadlineExceeded) {
			kind = "timeout"
		}
	}
	// The text of an error may name a row, or hold whatever the observer put into it.
	fields := []any{"kind", kind, "observer", rn.name, "table", rn.table, "column", rn.column, "attempt", j.attempt, "cells", len(r.part)}
	// The log tells where a bisection begins and ends.
	first := j.attempt == 1 && (len(r.part) == 1 || !r.halves)
	look := append(slices.Clone(fields), "look", "the log at debug level names the row and the error")
	switch {
	case panicked != nil && first:
		w.log.Error("observers: an observer panicked", append(look, "stack", panicked.Stack)...)
	case !out.conflict && first:
		w.log.Warn("observers: an attempt failed", look...)
	}
	w.log.Debug("observers: attempt failed", append(fields, "row", j.entry.row, "err", err)...)
	return out
}

// ofOneCell reports whether a batch failed before the observer was called, and probably for one of
// its cells: that is locked, or their names are too much for a transaction.
func ofOneCell(r *run, err error) bool {
	return len(r.part) > 1 && (errors.Is(err, percolator.ErrLocked) || errors.Is(err, percolator.ErrTooLarge))
}

// isAck reports whether the cell is an acknowledgment: a conflict there means that another run for
// the same change won. In users' tables only acknowledgments have columns that begin with 0x00.
func isAck(c percolator.Cell) bool { return strings.HasPrefix(c.Column, "\x00") }

// blameless reports whether a failure says nothing about the cell or its observer: the store was
// unreachable, or the commit was ambiguous (if it succeeded, the next attempt finds the
// acknowledgment), or a table that it needs is being imported. An outage must not park every queued
// cell. Any other error from the observer itself always counts.
func blameless(err error, at stage) bool {
	switch {
	case errors.Is(err, meta.ErrImporting):
		return true
	case at == stageObserver, errors.Is(err, percolator.ErrCorrupt), errors.Is(err, percolator.ErrConflict):
		return false
	case at == stagePrepare, errors.Is(err, percolator.ErrOutcomeUnknown):
		return true
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}
