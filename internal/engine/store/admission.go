package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// admission is a request that was sent.
type admission struct {
	table     *tablePressure
	class     int
	mutations int64
	started   time.Time
}

// takeRoom waits for room for the mutations of a request.
func (a *admission) takeRoom(ctx context.Context) error {
	if a.mutations == 0 {
		return nil
	}
	if a.class == background {
		a.mutations = min(a.mutations, outstandingMost/2)
		if err := a.table.behind.Acquire(ctx, a.mutations); err != nil {
			return err
		}
	}
	err := a.table.room.Acquire(ctx, a.mutations)
	if err != nil && a.class == background {
		a.table.behind.Release(a.mutations)
	}
	return err
}

func (a *admission) giveRoom() {
	a.table.room.Release(a.mutations)
	if a.class == background {
		a.table.behind.Release(a.mutations)
	}
}

// waiter is a request that waits for that.
type waiter struct {
	admission
	granted chan struct{}
}

// admit waits until a request to a table may be sent.
func (s *Store) admit(ctx context.Context, table string, mutations int) (admission, error) {
	class := foreground
	if isBackground(ctx) {
		class = background
	}
	p := s.Pressure.of(pressed{table, class == background})
	a := admission{table: p, class: class, mutations: int64(min(mutations, outstandingMost))}
	if a.takeRoom(ctx) != nil {
		return admission{}, fmt.Errorf("percolator: too many mutations of this client are in flight: %w", ctx.Err())
	}
	p.mu.Lock()
	now := time.Now()
	if !p.until.After(now) && p.waiting[foreground].Len()+p.waiting[background].Len() == 0 && p.hasRoom(class) {
		p.send(&a, now)
		p.mu.Unlock()
		return a, nil
	}
	w := &waiter{a, make(chan struct{})}
	at := p.waiting[class].PushBack(w)
	p.grant()
	p.mu.Unlock()
	ended := ctx
	select {
	case <-w.granted:
		return w.admission, nil
	case <-ctx.Done():
	case <-s.Background.Done():
		ended = s.Background
	}
	p.mu.Lock()
	sent := !w.started.IsZero()
	if !sent {
		p.waiting[class].Remove(at)
		a.giveRoom()
		p.grant()
	}
	p.mu.Unlock()
	if sent {
		w.leave(context.Canceled)
	}
	return admission{}, fmt.Errorf("%w: %w", errPressed, ended.Err())
}

// errPressed ends a request that was not sent before its context ended.
var errPressed = status.Error(codes.ResourceExhausted, "the request waited for its turn until the end")

// notSent is the error of a conditional mutation that was not sent before its context ended.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// NotSent reports whether a conditional mutation failed before it was sent.
func NotSent(err error) bool {
	var e notSent
	return errors.As(err, &e)
}
