package observers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/percolator"
)

// errGoexit is the failure of an observer that ended its goroutine.
var errGoexit = errors.New("the observer called runtime.Goexit")

// PanicError is the failure of an observer that panicked.
type PanicError struct {
	Observer string
	Value    string // the value of the panic as text, at most 256 bytes
	Stack    string // of the goroutine, at most 4 KiB
}

// Error returns the value of the panic. The worker wraps it with the names of observer, table and
// column.
func (e *PanicError) Error() string { return "panicked: " + e.Value }

// run makes one attempt at a turn.
func (w *Worker) run(ctx context.Context, tn turn) (out outcome) {
	ctx, cancel := context.WithTimeout(ctx, tn.lane.timeout)
	defer cancel()
	begun := time.Now()
	ctx, span := w.startRun(ctx, tn)
	defer func() { w.endRun(ctx, tn, span, begun, out) }()
	if tn.entry.column.weak {
		return w.runWeak(ctx, tn)
	}
	return w.runAcknowledged(ctx, tn)
}

// attempt calls the observer in tx and commits it.
func (w *Worker) attempt(ctx context.Context, tn turn, tx *commit.Txn, ch Change) outcome {
	tn.lane.counters.attempts.Add(1)
	if tn.attempt > 1 {
		tn.lane.counters.retries.Add(1)
	}
	if err := call(ctx, tn.lane.observer, (*percolator.Txn)(tx), ch); err != nil {
		var off snooze
		if errors.As(err, &off) && !errors.Is(err, percolator.ErrConflict) {
			tn.lane.counters.snoozes.Add(1)
			return outcome{snoozed: true, pause: off.pause}
		}
		return w.failed(tn, err, stageObserver)
	}
	if _, err := tx.Commit(ctx); err != nil {
		return w.failed(tn, err, stageCommit)
	}
	tn.lane.counters.runs.Add(1)
	return outcome{start: tx.StartTimestamp(), committed: true}
}

// call turns a panic into an error.
func call(ctx context.Context, o *observer, tx *percolator.Txn, ch Change) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{o.name, clip(fmt.Sprint(r), 256), clip(string(debug.Stack()), 4096)}
		}
	}()
	return o.f(ctx, tx, ch)
}

func clip(s string, n int) string { return s[:min(n, len(s))] }

// stage is where an attempt failed.
type stage uint8

const (
	stagePrepare  stage = iota // before the observer was called
	stageObserver              // in the observer
	stageCommit
)

// failed classifies, counts and logs a failure.
func (w *Worker) failed(tn turn, err error, at stage) outcome {
	l := tn.lane
	out := outcome{
		err:       fmt.Errorf("observer %q on column %q of table %q: %w", l.name, l.column, l.table, err),
		conflict:  errors.Is(err, percolator.ErrConflict),
		blameless: blameless(err, at),
	}
	var conflict *percolator.ConflictError
	if errors.As(err, &conflict) {
		out.contended = !isAck(conflict.Cell)
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
	fields := []any{"kind", kind, "observer", l.name, "table", l.table, "column", l.column, "attempt", tn.attempt}
	switch {
	case panicked != nil && tn.attempt == 1:
		w.log.Error("observers: an observer panicked", append(fields, "stack", panicked.Stack)...)
	case !out.conflict && tn.attempt == 1:
		w.log.Warn("observers: an attempt failed", fields...)
	}
	w.log.Debug("observers: attempt failed", append(fields, "row", tn.entry.row, "err", err)...)
	return out
}

// isAck reports whether the cell is an acknowledgment: a conflict there means that another run for
// the same change won. In users' tables only acknowledgments have columns that begin with 0x00.
func isAck(c percolator.Cell) bool { return strings.HasPrefix(c.Column, "\x00") }

// blameless reports whether a failure says nothing about the cell or its observer: the store was
// unreachable, or the commit was ambiguous (if it succeeded, the next attempt finds the
// acknowledgment). An outage must not park every queued cell. An error from the observer itself
// always counts.
func blameless(err error, at stage) bool {
	switch {
	case at == stageObserver, errors.Is(err, percolator.ErrCorrupt), errors.Is(err, percolator.ErrConflict):
		return false
	case at == stagePrepare, errors.Is(err, percolator.ErrOutcomeUnknown):
		return true
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}
