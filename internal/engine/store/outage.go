package store

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// outageAfter is for how long nothing is answered before that is logged.
const outageAfter = 5 * time.Second

// Outage logs once when nothing has been answered for some seconds, and once when something is
// answered again. It costs a request some atomic operations, and a timer every few seconds. A nil
// Outage logs nothing.
type Outage struct {
	What   string // that answers: a sentence begins with it
	Logger *slog.Logger
	Over   context.Context // nothing is logged after it has ended

	waiting atomic.Int64 // requests
	answers atomic.Int64
	armed   atomic.Bool // a look is due
	down    atomic.Bool
}

// Silent reports whether the store, or the oracle, has not answered for some seconds.
func (s *Store) Silent() bool { return s.Outage.Silent() || s.OracleOutage.Silent() }

// Warn logs what has failed as telemetry.Warn does, but at level Debug alone while the log already
// says that nothing answers.
func (s *Store) Warn(log *slog.Logger, what string, err error, fields ...any) {
	if s.Silent() {
		log.Debug(what, append(slices.Clone(fields), "err", err)...)
	} else {
		telemetry.Warn(log, what, err, fields...)
	}
}

// Silent reports whether nothing has been answered for some seconds.
func (o *Outage) Silent() bool { return o != nil && o.down.Load() }

// Asked comes before a request.
func (o *Outage) Asked() {
	if o == nil {
		return
	}
	o.waiting.Add(1)
	if !o.armed.Load() && o.armed.CompareAndSwap(false, true) {
		answers := o.answers.Load()
		time.AfterFunc(outageAfter, func() { o.look(answers) })
	}
}

// Heard tells that the other side lives, in the middle of a request.
func (o *Outage) Heard() {
	if o == nil {
		return
	}
	o.answers.Add(1)
	if o.down.Load() && o.down.CompareAndSwap(true, false) {
		o.Logger.Info(o.What + " answers again")
	}
}

// Ended comes after a request.
func (o *Outage) Ended(err error) {
	if o == nil {
		return
	}
	left := o.waiting.Add(-1)
	switch {
	case err == nil || !retry.Ambiguous(err) && !errors.Is(err, tso.ErrUnavailable):
		o.Heard()
	case left == 0 && isCancellation(err):
		o.answers.Add(1) // nobody waits any more
	}
}

func isCancellation(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// look logs an outage if nothing has been answered since there were so many answers.
func (o *Outage) look(answers int64) {
	o.armed.Store(false)
	if o.answers.Load() == answers && o.Over.Err() == nil && o.down.CompareAndSwap(false, true) {
		o.Logger.Warn(o.What+" does not answer; requests are repeated", "for", outageAfter)
	}
}
