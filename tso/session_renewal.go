package tso

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// renewTimeout bounds one attempt to open or to renew a session. The keeper gives up earlier
	// when it knows that no server answers.
	renewTimeout = 10 * time.Second

	// quickRenewals is how many attempts to renew a session in a row have a quarter of its lease
	// each. As the first leaves when a third has passed, they may remain without an answer, and the
	// next one leaves before the lease ends.
	quickRenewals = 2

	// unsupportedPause is how long an oracle that keeps no sessions is left alone.
	unsupportedPause = 30 * time.Second

	// endTimeout bounds telling the keeper that a session is over; without an answer its lease runs
	// out.
	endTimeout = time.Second

	// endAllTimeout bounds the same for all sessions of a Client that is closed.
	endAllTimeout = 500 * time.Millisecond
)

// session is a [Session] that a goroutine keeps alive.
type session struct {
	keeper sessionKeeper
	clock  clock
	forget func() // takes the session out of its set

	held   atomic.Pointer[grant] // the last lease; nil without one
	over   atomic.Bool           // Close was called
	closed sync.Once
	cancel context.CancelFunc // ends the goroutine
	done   chan struct{}      // closed when it has ended
}

// ID implements [Session]. It checks the lease itself instead of relying on the goroutine: in a
// process that was stopped, or on a machine that was suspended, a caller may ask before the
// goroutine runs.
func (s *session) ID() string {
	g := s.held.Load()
	if g == nil || s.over.Load() || g.left(s.clock.moment()) <= 0 {
		return ""
	}
	return g.id
}

// Close implements [Session]. It waits for the answer for a second at most. Calls after the first
// do nothing.
func (s *session) Close(ctx context.Context) error {
	var err error
	s.closed.Do(func() {
		s.over.Store(true)
		s.cancel()
		defer s.forget()
		ctx, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		select {
		case <-s.done:
		case <-ctx.Done():
			err = fmt.Errorf("tso: ending a session: %w", ctx.Err())
			return
		}
		if g := s.held.Load(); g != nil {
			err = s.keeper.end(ctx, g.id)
		}
	})
	if errors.Is(err, errSessionEnded) || errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// run opens a session and renews it until ctx ends, and opens another whenever the keeper has ended
// it. It renews a session whose lease has run out all the same: the keeper may have been away, and
// have given every session a new lease.
func (s *session) run(ctx context.Context) {
	defer close(s.done)
	// After a change of leader all clients retry at once.
	pause := newPause(20*time.Millisecond, time.Second)
	id, lease, failed := "", time.Duration(0), 0
	for {
		timeout := renewTimeout
		if id != "" && failed < quickRenewals {
			timeout = min(timeout, lease/4)
		}
		g, err := s.attempt(ctx, id, timeout)
		failed++
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			if err == nil {
				s.held.Store(&g) // for Close to end it
			}
			return
		case err == nil:
			s.held.Store(&g)
			id, lease, failed = g.id, g.lease, 0
			pause.Reset()
			// A third of the lease, or up to a tenth less: clients that started together should not
			// stay together.
			wait = lease/3 - rand.N(lease/30+1)
		case errors.Is(err, errSessionEnded):
			s.held.Store(nil)
			id = ""
			wait = pause.NextBackOff()
		case errors.Is(err, ErrClosed):
			return
		case errors.Is(err, ErrUnsupported):
			wait = unsupportedPause
		default:
			wait = pause.NextBackOff()
			if id != "" {
				wait = min(wait, lease/6)
			}
		}
		if sleep(ctx, max(wait, time.Millisecond)) != nil {
			return
		}
	}
}

// attempt renews the session id once, or opens one if id is "".
func (s *session) attempt(ctx context.Context, id string, timeout time.Duration) (grant, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if id == "" {
		return s.keeper.open(ctx)
	}
	return s.keeper.keepAlive(ctx, id)
}

// sessionSet is the sessions of a Client, or of a Server in its own process. The zero value is
// empty.
type sessionSet struct {
	mu     sync.Mutex
	open   map[*session]struct{}
	closed bool
}

// start begins a session. ErrLimit: there are too many; ErrClosed: the set was closed.
func (set *sessionSet) start(keeper sessionKeeper, c clock) (*session, error) {
	set.mu.Lock()
	defer set.mu.Unlock()
	switch {
	case set.closed:
		return nil, fmt.Errorf("tso: opening a session: %w", ErrClosed)
	case len(set.open) >= maxOpenSessions:
		return nil, fmt.Errorf("tso: opening a session: %w: this process has %d, and needs one", ErrLimit, len(set.open))
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{keeper: keeper, clock: c, cancel: cancel, done: make(chan struct{})}
	s.forget = func() { set.remove(s) }
	if set.open == nil {
		set.open = make(map[*session]struct{})
	}
	set.open[s] = struct{}{}
	go s.run(ctx)
	return s, nil
}

func (set *sessionSet) remove(s *session) {
	set.mu.Lock()
	defer set.mu.Unlock()
	delete(set.open, s)
}

// close ends all sessions, tells their keeper for half a second at most, and refuses further ones.
func (set *sessionSet) close() {
	set.mu.Lock()
	set.closed = true
	open := make([]*session, 0, len(set.open))
	for s := range set.open {
		open = append(open, s)
	}
	set.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), endAllTimeout)
	defer cancel()
	var closing sync.WaitGroup
	for _, s := range open {
		closing.Go(func() { _ = s.Close(ctx) }) // without an answer the lease runs out
	}
	closing.Wait()
}
