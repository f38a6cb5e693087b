package tso

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// maxOpenSessions is how many sessions a Client, or the process of a Server, may have. It needs
// one.
const maxOpenSessions = 64

// errSessionEnded means that a session cannot be renewed, because it has ended or never was.
var errSessionEnded = errors.New("the session has ended")

// grant is a lease on a session.
type grant struct {
	id    string
	lease time.Duration
	since moment // before the request for the lease was sent: the server counts from later
}

// left returns how long its owner may trust the session after a moment, by whichever clock shows
// most. That is 2 % less than the lease says, because the speed of two machines' clocks may differ
// by as much.
func (g grant) left(at moment) time.Duration {
	return lease{from: g.since, length: g.lease - g.lease/50}.left(at)
}

// sessionKeeper is where sessions are kept: a server in this process, or one behind a connection.
// Its methods return when their context ends.
type sessionKeeper interface {
	open(ctx context.Context) (grant, error)

	// keepAlive renews a lease. errSessionEnded: it cannot be renewed any more.
	keepAlive(ctx context.Context, id string) (grant, error)

	end(ctx context.Context, id string) error
}

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

	// endTimeout bounds telling the keeper that a session has ended; without an answer its lease
	// runs out.
	endTimeout = time.Second

	// endAllTimeout bounds the same for all sessions of a Client that is closed.
	endAllTimeout = 500 * time.Millisecond
)

// session is a [coordination.Session] that a goroutine keeps alive.
type session struct {
	keeper sessionKeeper
	clock  clock
	forget func() // takes the session out of its set

	held   atomic.Pointer[grant] // the last lease; nil without one
	closed atomic.Bool           // Close was called
	once   sync.Once
	cancel context.CancelFunc // ends the goroutine
	done   chan struct{}      // closed when it has ended
}

// ID implements [coordination.Session]. It checks the lease itself instead of relying on the
// goroutine: in a process that was stopped, or on a machine that was suspended, a caller may ask
// before the goroutine runs.
func (s *session) ID() string {
	g := s.held.Load()
	if g == nil || s.closed.Load() || g.left(s.clock.moment()) <= 0 {
		return ""
	}
	return g.id
}

// Close implements [coordination.Session]. It waits for the answer for a second at most. Calls
// after the first do nothing.
func (s *session) Close(ctx context.Context) error {
	var err error
	s.once.Do(func() {
		s.closed.Store(true)
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

// maxSessionsBytes is how large an answer about sessions can be.
const maxSessionsBytes = record.MaxSessionIDs*(record.MaxSessionIDBytes+2) + 1<<10

// OpenSession implements [coordination.Sessions]. The client renews the session when a third of its
// lease has passed, and ends it with Close of either. ErrLimit: the client already has 64.
// ErrClosed: the client was closed.
func (c *Client) OpenSession() (coordination.Session, error) {
	own := newClock(nil)
	return c.sessions.start(clientSessions{client: c, clock: own}, own)
}

// EndedSessions implements [coordination.Sessions]. ErrUnsupported: the oracle keeps no sessions.
// ErrUnavailable, and ctx's error: the oracle was unreachable for 10 s (see [WithTimeout]).
func (c *Client) EndedSessions(ctx context.Context, ids ...string) ([]string, error) {
	if err := checkAskedSessions(ids); err != nil {
		return nil, err
	}
	// What cannot be an id is not sent: it is no session's.
	ask := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !record.IsSessionID(id) })
	ended := slices.DeleteFunc(slices.Clone(ids), record.IsSessionID)
	if len(ask) == 0 {
		return ended, nil
	}
	resp, err := callLeader(ctx, c, 0, "asking for sessions", func(ctx context.Context, p *peer) (*tsopb.EndedSessionsResponse, error) {
		return p.sessions.EndedSessions(ctx, &tsopb.EndedSessionsRequest{Ids: ask}, grpc.MaxCallRecvMsgSize(maxSessionsBytes))
	})
	if err != nil {
		return nil, err
	}
	return append(ended, resp.GetIds()...), nil
}

// callLeader calls f with the server that leads, as far as the client knows; the server may take
// wait to answer. When that fails, or no leader is known, Next finds it, and callLeader calls f
// once more: what f does must be harmless if it is done twice.
func callLeader[R any](
	ctx context.Context, c *Client, wait time.Duration, doing string, f func(ctx context.Context, p *peer) (R, error),
) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.timeout+wait)
	defer cancel()
	resp, err := callOnce(ctx, c, wait, f)
	if err != nil && fromStatus(err) == nil && ctx.Err() == nil {
		if _, nextErr := c.Next(ctx); nextErr != nil {
			err = errors.Join(nextErr, err)
		} else {
			resp, err = callOnce(ctx, c, wait, f)
		}
	}
	if err == nil {
		return resp, nil
	}
	refused := fromStatus(err)
	switch {
	case c.ctx.Err() != nil:
		err = ErrClosed
	case refused != nil:
		err = refused
	default:
		err = fmt.Errorf("%w: %w", ErrUnavailable, record.WithContext(ctx, err))
	}
	var none R
	return none, fmt.Errorf("tso: %s: %w", doing, err)
}

// callOnce calls f with the server that answered last.
func callOnce[R any](
	ctx context.Context, c *Client, wait time.Duration, f func(ctx context.Context, p *peer) (R, error),
) (resp R, err error) {
	leader := c.leader.Load()
	if leader == nil || leader.conn == nil {
		return resp, &NotLeaderError{}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.callTimeout+wait)
	defer cancel()
	if resp, err = f(ctx, leader); err != nil {
		err = fmt.Errorf("%s: %w", leader.address, err)
	}
	return resp, err
}

// clientSessions keeps sessions at the server that leads.
type clientSessions struct {
	client *Client
	clock  clock
}

func (k clientSessions) open(ctx context.Context) (grant, error) {
	// Without an answer there may be a session that no one renews, and another is opened.
	var since moment
	resp, err := callLeader(ctx, k.client, 0, "opening a session", func(ctx context.Context, p *peer) (*tsopb.OpenSessionResponse, error) {
		since = k.clock.moment()
		return p.sessions.OpenSession(ctx, &tsopb.OpenSessionRequest{})
	})
	return newGrant(resp.GetId(), resp.GetLeaseMs(), since, err)
}

func (k clientSessions) keepAlive(ctx context.Context, id string) (grant, error) {
	var since moment
	resp, err := callLeader(ctx, k.client, 0, "renewing a session", func(ctx context.Context, p *peer) (*tsopb.KeepAliveResponse, error) {
		since = k.clock.moment()
		return p.sessions.KeepAlive(ctx, &tsopb.KeepAliveRequest{Id: id})
	})
	return newGrant(id, resp.GetLeaseMs(), since, err)
}

func (k clientSessions) end(ctx context.Context, id string) error {
	_, err := callLeader(ctx, k.client, 0, "ending a session", func(ctx context.Context, p *peer) (*tsopb.CloseSessionResponse, error) {
		return p.sessions.CloseSession(ctx, &tsopb.CloseSessionRequest{Id: id})
	})
	return err
}

// newGrant returns what a server granted, unless the call failed with err.
func newGrant(id string, leaseMS int64, since moment, err error) (grant, error) {
	switch {
	case err != nil:
		return grant{}, err
	case !record.IsSessionID(id), leaseMS < minSessionLease.Milliseconds(), leaseMS > maxSessionLease.Milliseconds():
		return grant{}, fmt.Errorf("tso: %w: the server answered with the session %.80q and a lease of %d ms", ErrUnavailable, id, leaseMS)
	}
	return grant{id: id, lease: time.Duration(leaseMS) * time.Millisecond, since: since}, nil
}
