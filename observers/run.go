package observers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A goroutine takes a run and makes attempts at it: transactions in which it calls the observer. It
// cuts a batch that fails in halves until the bad cell is alone. Attempts for an observed column
// are in ack.go, those for a weak one in weak.go.

// next takes up the next attempt of a run.
func (r *run) next() bool {
	last := len(r.attempts) - 1
	if last < 0 {
		return false
	}
	r.attempt, r.attempts = r.attempts[last], r.attempts[:last]
	return true
}

// all gives every job of the attempt the same outcome.
func (r *run) all(out outcome) []outcome { return slices.Repeat([]outcome{out}, len(r.attempt)) }

// perform makes the attempts of r. It reports whether the last of them was inconclusive. ctx ends
// when the worker stops, runs when it has drained: what is left of a batch then is for others.
func (w *Worker) perform(ctx, runs context.Context, r *run) (inconclusive bool) {
	for first := !r.divided; r.next(); first = false {
		switch {
		case !first && ctx.Err() != nil:
			w.putBack(r.attempt, outcome{state: runInconclusive})
		case !first && time.Now().After(r.until):
			w.putBack(r.attempt, outcome{state: runIsolated, due: time.Now()})
		default:
			inconclusive = w.endAttempt(runs, r, w.attempt(runs, r))
		}
	}
	return inconclusive
}

// putBack ends jobs that were not attempted.
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

// endAttempt ends the jobs that the attempt has decided. If it has failed they are divided among
// further attempts, unless it was for one cell, or was inconclusive.
func (w *Worker) endAttempt(ctx context.Context, r *run, outs []outcome) (inconclusive bool) {
	w.queue.count(r, outs)
	if slices.ContainsFunc(outs, outcome.finishes) {
		w.finishes(r.runner)
	}
	var unread, failed []job
	var failure outcome
	for i, j := range r.attempt {
		switch out := outs[i]; out.state {
		case runUnread:
			unread = append(unread, j)
		case runConflicted, runFailed, runInconclusive, runSnoozed:
			failed, failure = append(failed, j), out
		default:
			w.end(ctx, out, j)
		}
	}
	if len(unread) > 0 {
		r.attempts = append(r.attempts, unread)
	}
	switch {
	case len(failed) <= 1, failure.state == runSnoozed:
		w.end(ctx, failure, failed...)
	case failure.state == runInconclusive:
		failure.due = time.Now().Add(w.queue.sharedPause(failed))
		w.end(ctx, failure, failed...)
	default:
		r.divided = true
		r.attempts = append(r.attempts, cutUp(failed, failure.undecodable)...)
	}
	return failure.state == runInconclusive
}

// cutUp divides the jobs of an attempt that has failed: in halves, or so that each of the bad ones
// is alone. The last one runs first.
func cutUp(jobs []job, bad []int) (attempts [][]job) {
	if len(bad) == 0 {
		half := len(jobs) / 2
		return [][]job{jobs[half:], jobs[:half]}
	}
	var rest []job
	for i := range jobs {
		if slices.Contains(bad, i) {
			attempts = append(attempts, jobs[i:i+1])
		} else {
			rest = append(rest, jobs[i])
		}
	}
	if len(rest) > 0 {
		attempts = append(attempts, rest)
	}
	return attempts
}

// errGoexit is the failure of an observer that ended its goroutine.
var errGoexit = errors.New("the observer called runtime.Goexit")

// PanicError is the failure of an observer that panicked.
type PanicError struct {
	Observer string // "" if a delivery function of package exportqueue panicked
	Value    string // the value of the panic as text, at most 256 bytes
	Stack    string // of the goroutine, at most 4 KiB
}

// Error returns the value of the panic. The worker wraps it with the names of observer, table and
// column.
func (e *PanicError) Error() string { return "panicked: " + e.Value }

// attempt makes the next attempt of r, and returns the outcome of each job.
func (w *Worker) attempt(ctx context.Context, r *run) (outs []outcome) {
	if w.dropped(r.attempt[0].entry.column) {
		return r.all(outcome{state: runDropped})
	}
	ctx, cancel := context.WithTimeout(ctx, r.runner.timeout)
	defer cancel()
	started := time.Now()
	r.at.begin(r, started)
	defer w.endInFlight(r.at)
	ctx, span := w.startSpan(ctx, r)
	defer func() { w.endSpan(ctx, r, span, started, outs) }()
	if r.attempt[0].entry.column.weak {
		return w.attemptWeak(ctx, r)
	}
	return w.attemptAcknowledged(ctx, r)
}

// commit calls the observer in tx and commits it.
func (w *Worker) commit(ctx context.Context, r *run, tx *commit.Txn, changes []Change) outcome {
	c := &r.runner.counters
	c.attempts.Add(1)
	if r.again() {
		c.retries.Add(1)
	}
	if err := call(ctx, r.runner.observer, (*percolator.Txn)(tx), changes); err != nil {
		var off snooze
		if errors.As(err, &off) && !errors.Is(err, percolator.ErrConflict) {
			c.snoozes.Add(1)
			return outcome{state: runSnoozed, due: time.Now().Add(off.pause)}
		}
		return w.failed(r, err, stageOf(err, tx)).of(tx)
	}
	notifies := tx.Notifies()
	ts, err := tx.Commit(ctx)
	if err != nil {
		at := stageCommit
		if ctx.Err() != nil {
			at = stageLate
		}
		return w.failed(r, err, at).of(tx)
	}
	r.shared = tx.Shared()
	w.followLoops(r.runner, changes, ts, notifies)
	c.runs.Add(1)
	c.cells.Add(int64(len(changes)))
	w.countBatch(ctx, r.runner, len(changes))
	return outcome{state: runCommitted, through: tx.StartTimestamp()}
}

// again reports whether an attempt for the same changes has failed before.
func (r *run) again() bool { return r.divided || r.attempt[0].number > 1 }

// call turns a panic into an error.
func call(ctx context.Context, o *observer, tx *percolator.Txn, changes []Change) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{o.name, text.Beginning(fmt.Sprint(r), 256), text.Beginning(string(debug.Stack()), 4096)}
		}
	}()
	(*commit.Txn)(tx).Lend()
	if err = o.f(ctx, tx, changes); err != nil {
		_ = err.Error() // a nil pointer in it panics here, and not in the worker
	}
	return err
}

// stage is where an attempt failed.
type stage uint8

const (
	stagePrepare  stage = iota // before the observer was called, or by no fault of its
	stageObserver              // in the observer
	stageCommit
	stageLate // in the commit, when the time of the attempt was over: the observer may have taken it
)

// stageOf is where an attempt failed whose observer has returned err. Where an import has ended, or
// an index has become complete, since the transaction began, none could have read there: the next
// attempt can.
func stageOf(err error, tx *commit.Txn) stage {
	var outdated *meta.OutdatedError
	if errors.As(err, &outdated) && outdated.Snapshot == tx.StartTimestamp() {
		return stagePrepare
	}
	return stageObserver
}

// failed classifies, counts and logs a failure of the attempt in flight.
func (w *Worker) failed(r *run, err error, at stage) outcome {
	c, out := &r.runner.counters, classify(r, err, at)
	kind := "error"
	var panicked *PanicError
	switch {
	case out.state == runConflicted:
		c.conflicts.Add(1)
		kind = "conflict"
	case errors.As(err, &panicked):
		c.panics.Add(1)
		kind = "panic"
	default:
		c.errors.Add(1)
		if errors.Is(err, context.DeadlineExceeded) {
			kind = "timeout"
		}
	}
	w.logFailure(r, err, kind, panicked, out)
	return out
}

// classify returns the outcome of an attempt that has failed.
func classify(r *run, err error, at stage) outcome {
	o := r.runner.observer
	out := outcome{state: runFailed, err: fmt.Errorf("observer %q on column %q of table %q: %w", o.name, o.column, o.table, err)}
	var bad undecodable
	switch {
	case blameless(err, at) && !ofOneCell(r, err):
		out.state = runInconclusive
	case errors.Is(err, percolator.ErrConflict):
		out.state = runConflicted
		errors.As(err, &out.conflict)
	case errors.As(err, &bad):
		out.undecodable = bad.at
	}
	return out
}

// logFailure logs a failure of the attempt in flight. Rows, and what errors of this module say of
// them, are for level Debug; the text of the observer's own error is for whoever runs it.
func (w *Worker) logFailure(r *run, err error, kind string, panicked *PanicError, out outcome) {
	o, j := r.runner.observer, r.attempt[0]
	fields := []any{"kind", kind, "observer", o.name, "table", o.table, "column", o.column, "attempt", j.number, "cells", len(r.attempt)}
	// The log tells where a bisection starts and ends.
	first := j.number == 1 && (len(r.attempt) == 1 || !r.divided)
	warning := append(w.reason(slices.Clone(fields), err), "look", "the log at debug level names the row")
	switch {
	case out.state == runInconclusive, out.state != runConflicted && w.engine.Store.Silent():
		w.stalled(r, err)
	case panicked != nil && first:
		w.log.Error("observers: an observer panicked", append(warning, "stack", panicked.Stack)...)
	case kind != "conflict" && first:
		w.log.Warn("observers: an attempt failed", warning...)
	}
	w.log.Debug("observers: attempt failed", append(fields, "row", j.entry.row, "err", err)...)
}

// reason adds to the fields of a line what its error may tell at any level.
func (w *Worker) reason(fields []any, err error) []any {
	fields = append(fields, "cause", telemetry.Cause(err))
	if !w.cfg.HideErrors {
		fields = append(fields, "err", telemetry.ProgramText(err))
	}
	return fields
}

// ofOneCell reports whether a batch failed before the observer was called, and probably for one of
// its cells: that is locked, or their names are too much for a transaction.
func ofOneCell(r *run, err error) bool {
	return len(r.attempt) > 1 && (errors.Is(err, percolator.ErrLocked) || errors.Is(err, percolator.ErrTooLarge))
}

// isAck reports whether the cell is an acknowledgment: a conflict there means that another run for
// the same change won. In users' tables only acknowledgments have columns that begin with 0x00.
func isAck(c percolator.Cell) bool { return strings.HasPrefix(c.Column, "\x00") }

// blameless reports whether a failure says nothing about the cell or its observer: the store or the
// oracle was unreachable, or the commit was ambiguous (if it succeeded, the next attempt finds the
// acknowledgment), or a table that it needs is being imported. An outage must not park every queued
// cell. Any other error from the observer itself always counts.
func blameless(err error, at stage) bool {
	switch {
	case errors.Is(err, model.ErrImporting):
		return true
	case at == stageObserver, errors.Is(err, percolator.ErrCorrupt), errors.Is(err, percolator.ErrConflict):
		return false
	case at == stagePrepare, errors.Is(err, percolator.ErrOutcomeUnknown):
		return true
	case errors.Is(err, tso.ErrUnavailable), errors.Is(err, tso.ErrNotLeader):
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted:
		return true
	case codes.DeadlineExceeded, codes.Internal, codes.Aborted:
		return at == stageCommit
	}
	return false
}
