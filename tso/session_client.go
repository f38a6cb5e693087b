package tso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// maxSessionsBytes is how large an answer about sessions can be.
const maxSessionsBytes = record.MaxSessionIDs*(record.MaxSessionIDBytes+2) + 1<<10

// OpenSession implements [Sessions]. The client renews the session when a third of its lease has
// passed, and ends it with Close of either. ErrLimit: the client already has 64. ErrClosed: the
// client was closed.
func (c *Client) OpenSession() (Session, error) {
	own := newClock(nil)
	return c.sessions.start(clientSessions{client: c, clock: own}, own)
}

// EndedSessions implements [Sessions]. ErrUnsupported: the oracle keeps no sessions.
// ErrUnavailable, and ctx's error: the oracle could not be asked for 10 s (see [WithTimeout]).
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
