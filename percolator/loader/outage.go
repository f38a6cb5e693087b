package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// fault is whose failure an error is.
type fault int

const (
	faultItem   fault = iota // of the items, and of the transaction they were in: try them alone
	faultPoison              // the same, and it would fail again
	faultStore               // of the store or the oracle: transient
	faultFatal               // the load cannot go on
)

// poison are errors that the same items would cause again.
var poison = []error{
	percolator.ErrUnique, percolator.ErrExists, percolator.ErrTooLarge, percolator.ErrCorrupt, percolator.ErrInvalidArgument,
	percolator.ErrTxnDone, percolator.ErrNotFound,
}

// fatal are errors that concern the table, or the load as a whole.
var fatal = []error{percolator.ErrSchemaMismatch, ErrTakenOver, admin.ErrImporting}

// faultOf classifies an error of a transaction. If Write itself has returned it (own), an error
// without a gRPC status is the item's.
func faultOf(err error, own bool) fault {
	switch s := status.Code(err); {
	case errors.Is(err, percolator.ErrClosed), s == codes.PermissionDenied, s == codes.Unauthenticated, s == codes.Unimplemented, s == codes.NotFound:
		return faultFatal
	}
	switch {
	case slices.ContainsFunc(poison, func(target error) bool { return errors.Is(err, target) }):
		return faultPoison
	case errors.Is(err, percolator.ErrConflict):
		return faultItem
	case slices.ContainsFunc(fatal, func(target error) bool { return errors.Is(err, target) }):
		return faultFatal
	case own && !storeSaidSo(err):
		return faultItem
	}
	return faultStore
}

// storeSaidSo tells whether an error comes from outside the process.
func storeSaidSo(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, percolator.ErrOutcomeUnknown) || errors.Is(err, percolator.ErrSnapshotTooOld)
}

// outage is a time in which the store fails again and again.
type outage struct {
	limit time.Duration
	since time.Time // of the first failure
	pause *pause
}

func newOutage(limit time.Duration, stopped context.Context) *outage {
	return &outage{limit: limit, pause: newPause(stopped)}
}

// try runs f until it succeeds or fails with an error that is not transient.
func (o *outage) try(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil || faultOf(err, false) != faultStore {
			return err
		}
		if err := o.wait(ctx, err); err != nil {
			return err
		}
	}
}

// wait pauses after a failure. It returns the error of the load when the outage has lasted too
// long.
func (o *outage) wait(ctx context.Context, err error) error {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if lasted := time.Since(o.since); lasted > o.limit {
		return fmt.Errorf("the store has failed for %v: %w", lasted.Round(time.Second), err)
	}
	return o.pause.wait(ctx, err)
}

// pause waits between attempts, twice as long each time, with jitter.
type pause struct {
	stopped context.Context // no pause outlasts it
	next    backoff.ExponentialBackOff
}

func newPause(stopped context.Context) *pause {
	return &pause{stopped, backoff.ExponentialBackOff{
		InitialInterval: 2 * time.Millisecond, MaxInterval: time.Second, Multiplier: 2, RandomizationFactor: 0.5,
	}}
}

func (p *pause) wait(ctx context.Context, cause error) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", cause, context.Cause(ctx))
	case <-p.stopped.Done():
		return fmt.Errorf("%w: %w", cause, context.Cause(p.stopped))
	case <-time.After(p.next.NextBackOff()):
		return nil
	}
}

// warn logs what has failed, and the kind of the failure. The text of an error may name a row: it
// is logged at level Debug.
func warn(log *slog.Logger, what string, err error, fields ...any) {
	log.Warn(what, append(fields, "kind", kindOf(err))...)
	log.Debug(what, append(fields, "err", err)...)
}

// kindOf is the kind of a failure, without a row: what the library calls it, or the code of the
// store's answer.
func kindOf(err error) string {
	switch code := status.Code(err); {
	case errors.Is(err, percolator.ErrConflict):
		return "conflict"
	case errors.Is(err, percolator.ErrOutcomeUnknown):
		return "outcome unknown"
	case errors.Is(err, percolator.ErrLocked):
		return "locked"
	case errors.Is(err, percolator.ErrSnapshotTooOld):
		return "snapshot too old"
	case errors.Is(err, ErrTakenOver):
		return "taken over"
	case errors.Is(err, context.DeadlineExceeded), code == codes.DeadlineExceeded:
		return "timeout"
	case err != nil && code != codes.Unknown:
		return code.String()
	}
	return "error"
}
