package observers

import (
	"github.com/gopercolator/percolator/percolator/model"

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
	"github.com/gopercolator/percolator/percolator"
)

// A goroutine takes a turn, or the turns of a batch, and makes a run of it: a transaction in which
// it calls the observer. It cuts a batch that fails in halves until the bad cell is alone. Runs for
// an observed column are in ack.go, those for a weak one in weak.go.

// run is what a goroutine does with a slot of an observer: a turn, or those of a batch, in as many
// transactions as it takes. Each part of it is one transaction's.
type run struct {
	lane   *lane
	part   []turn   // under way
	parts  [][]turn // still to come, the next one last
	halves bool     // a part has failed and was cut up
	until  time.Time
}

func newRun(tn turn) *run {
	part := tn.batch
	if part == nil {
		part = []turn{tn}
	}
	timeouts := bits.Len(uint(len(part))) + 1 // each part that holds one hanging cell, and one more
	return &run{lane: tn.lane, parts: [][]turn{part}, until: time.Now().Add(time.Duration(timeouts) * tn.lane.timeout)}
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

// all gives every turn of the part the same outcome.
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

// putBack ends turns that were not tried.
func (w *Worker) putBack(turns []turn, out outcome) {
	for _, tn := range turns {
		w.queue.finish(tn, out)
	}
}

// end ends turns of which each, or the transaction of all, had the outcome.
func (w *Worker) end(ctx context.Context, out outcome, turns ...turn) {
	for _, tn := range turns {
		w.queue.finish(tn, w.record(ctx, tn, out))
	}
}

// endPart ends the turns of the part that are over. If it has failed it is cut up, unless it is one
// cell, or the store is to blame.
func (w *Worker) endPart(ctx context.Context, r *run, outs []outcome) (blameless bool) {
	var unread, failed []turn
	var failure outcome
	counted := false
	for i, tn := range r.part {
		out := outs[i]
		if (out.committed || out.contended) && !counted { // one transaction, whatever its cells
			w.queue.mu.Lock()
			r.lane.count(out)
			w.queue.mu.Unlock()
			counted = true
		}
		out.counted = true
		switch {
		case out.unread:
			unread = append(unread, tn)
		case out.start == 0 && !out.parked && !out.dropped:
			failed, failure = append(failed, tn), out
		default:
			w.end(ctx, out, tn)
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

// cutUp divides the turns of a part that has failed: in halves, or so that each of the bad ones is
// alone. The last one runs first.
func cutUp(turns []turn, bad []int) (parts [][]turn) {
	if len(bad) == 0 {
		half := len(turns) / 2
		return [][]turn{turns[half:], turns[:half]}
	}
	var rest []turn
	for i := range turns {
		if slices.Contains(bad, i) {
			parts = append(parts, turns[i:i+1])
		} else {
			rest = append(rest, turns[i])
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
// turn.
func (w *Worker) runPart(ctx context.Context, r *run) (outs []outcome) {
	if w.dropped(r.part[0].entry.column) {
		return r.all(outcome{dropped: true})
	}
	ctx, cancel := context.WithTimeout(ctx, r.lane.timeout)
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
	c := &r.lane.counters
	c.attempts.Add(1)
	if r.again() {
		c.retries.Add(1)
	}
	if err := call(ctx, r.lane.observer, (*percolator.Txn)(tx), changes); err != nil {
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
	w.countBatch(ctx, r.lane, len(changes))
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
	l, tn := r.lane, r.part[0]
	out := outcome{
		err:       fmt.Errorf("observer %q on column %q of table %q: %w", l.name, l.column, l.table, err),
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
		l.counters.conflicts.Add(1)
		kind = "conflict"
	case errors.As(err, &panicked):
		l.counters.panics.Add(1)
		kind = "panic"
	default:
		l.counters.errors.Add(1)
		if errors.Is(err, context.DeadlineExceeded) {
			kind = "timeout"
		}
	}
	// The text of an error may name a row, or hold whatever the observer put into it.
	fields := []any{"kind", kind, "observer", l.name, "table", l.table, "column", l.column, "attempt", tn.attempt, "cells", len(r.part)}
	// The log tells where a bisection begins and ends.
	first := tn.attempt == 1 && (len(r.part) == 1 || !r.halves)
	look := append(slices.Clone(fields), "look", "the log at debug level names the row and the error")
	switch {
	case panicked != nil && first:
		w.log.Error("observers: an observer panicked", append(look, "stack", panicked.Stack)...)
	case !out.conflict && first:
		w.log.Warn("observers: an attempt failed", look...)
	}
	w.log.Debug("observers: attempt failed", append(fields, "row", tn.entry.row, "err", err)...)
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
	case errors.Is(err, model.ErrImporting):
		return true
	case at == stageObserver, errors.Is(err, percolator.ErrCorrupt), errors.Is(err, percolator.ErrConflict):
		return false
	case at == stagePrepare, errors.Is(err, percolator.ErrOutcomeUnknown):
		return true
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}
