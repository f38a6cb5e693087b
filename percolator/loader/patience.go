package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
)

// fault is whose failure an error is.
type fault int

const (
	faultItem   fault = iota // of the items, and of the transaction they were in: try them alone
	faultPoison              // the same, and it would fail again
	faultStore               // of the store or the oracle: it may pass
	faultFatal               // the load cannot go on
)

// faultOf judges an error of a transaction. Of an error that Write itself has returned (own) less
// is known: without a gRPC status it is the item's.
func faultOf(err error, own bool) fault {
	if s := status.Code(err); errors.Is(err, percolator.ErrClosed) || s == codes.PermissionDenied || s == codes.Unauthenticated || s == codes.Unimplemented {
		return faultFatal
	}
	for _, poison := range []error{
		percolator.ErrUnique, percolator.ErrExists, percolator.ErrTooLarge, percolator.ErrCorrupt, percolator.ErrInvalidArgument,
		percolator.ErrTxnDone, percolator.ErrNotFound,
	} {
		if errors.Is(err, poison) {
			return faultPoison
		}
	}
	switch {
	case errors.Is(err, percolator.ErrConflict):
		return faultItem
	case errors.Is(err, percolator.ErrSchemaMismatch), errors.Is(err, ErrTakenOver):
		return faultFatal
	case own && !storeSaidSo(err):
		return faultItem
	}
	return faultStore
}

// storeSaidSo tells whether an error comes from beyond the process.
func storeSaidSo(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, percolator.ErrOutcomeUnknown) || errors.Is(err, percolator.ErrSnapshotTooOld)
}

// patience is how long the store may fail.
type patience struct {
	limit   time.Duration
	stopped context.Context // no pause outlasts it
}

// try runs f until it succeeds or fails with something that does not pass.
func (p patience) try(ctx context.Context, f func(context.Context) error) error {
	o := outage{patience: p}
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

// outage is a time in which the store has failed again and again.
type outage struct {
	patience
	since time.Time
	pause pause
}

// wait pauses after a failure, and returns the error of the load when it has lasted for too long.
func (o *outage) wait(ctx context.Context, err error) error {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if lasted := time.Since(o.since); lasted > o.limit {
		return fmt.Errorf("the store has failed for %v: %w", lasted.Round(time.Second), err)
	}
	return o.pause.wait(ctx, o.stopped, err)
}

// The pauses between attempts double from the first to the last.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = time.Second
)

// pause waits with full jitter around a doubling interval.
type pause struct{ next time.Duration }

func (p *pause) wait(ctx, stopped context.Context, cause error) error {
	p.next = min(max(2*p.next, firstPause), lastPause)
	t := time.NewTimer(p.next/2 + rand.N(p.next))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", cause, context.Cause(ctx))
	case <-stopped.Done():
		return fmt.Errorf("%w: %w", cause, context.Cause(stopped))
	case <-t.C:
		return nil
	}
}
