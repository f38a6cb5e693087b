package tso

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// maxSessionsBytes is how large an answer about sessions can be.
const maxSessionsBytes = record.MaxSessionIDs*(record.MaxSessionIDBytes+2) + 1<<10

// OpenSession implements [Sessions]. The client renews the session when a third of its
// lease has passed, and ends it with Close of either. ErrLimit: the client has 64
// already. ErrClosed: the client was closed.
func (c *Client) OpenSession() (Session, error) {
	mono := newClock(nil).mono
	return c.sessions.start(clientSessions{client: c, mono: mono}, mono)
}

// EndedSessions implements [Sessions]. ErrUnsupported: the oracle keeps no sessions.
// ErrUnavailable, and ctx's error: it could not be asked, for 10 s (see
// [WithTimeout]).
func (c *Client) EndedSessions(ctx context.Context, ids ...string) ([]string, error) {
	if err := checkAskedSessions(ids); err != nil {
		return nil, err
	}
	// What cannot be an id is not sent: it is no session's.
	var ended, ask []string
	for _, id := range ids {
		if record.IsSessionID(id) {
			ask = append(ask, id)
		} else {
			ended = append(ended, id)
		}
	}
	if len(ask) == 0 {
		return ended, nil
	}
	err := c.callLeader(ctx, "asking for sessions", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		resp, err := tsopb.NewSessionsClient(conn).EndedSessions(ctx, &tsopb.EndedSessionsRequest{Ids: ask}, grpc.MaxCallRecvMsgSize(maxSessionsBytes))
		if err == nil {
			ended = append(ended, resp.GetIds()...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// callLeader calls f with a connection to the server that leads, as far as the client
// knows. When that fails, or no leader is known, Next finds it, and f is called once
// more: what f asks for must be harmless if it is done twice.
func (c *Client) callLeader(ctx context.Context, doing string, f func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	return c.callLeaderFor(ctx, 0, doing, f)
}

// callLeaderFor is callLeader for a call that the server may take wait to answer.
func (c *Client) callLeaderFor(ctx context.Context, wait time.Duration, doing string, f func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.timeout+wait)
	defer cancel()
	err := c.callOnce(ctx, wait, f)
	if err != nil && !decided(err) && ctx.Err() == nil {
		if _, nextErr := c.Next(ctx); nextErr != nil {
			err = errors.Join(nextErr, err)
		} else {
			err = c.callOnce(ctx, wait, f)
		}
	}
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return fmt.Errorf("tso: %s: %w", doing, ErrClosed)
	case decided(err):
		return fmt.Errorf("tso: %s: %w", doing, fromLivenessStatus(err))
	}
	return fmt.Errorf("tso: %s: %w: %w", doing, ErrUnavailable, record.WithContext(ctx, err))
}

// callOnce calls f with a connection to the server that answered last.
func (c *Client) callOnce(ctx context.Context, wait time.Duration, f func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	leader := c.leader.Load()
	if leader == nil || leader.conn == nil {
		return &NotLeaderError{}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.callTimeout+wait)
	defer cancel()
	if err := f(ctx, leader.conn); err != nil {
		return fmt.Errorf("%s: %w", leader.address, err)
	}
	return nil
}

// decided reports whether another server, or a later moment, would answer the same.
func decided(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.InvalidArgument, codes.ResourceExhausted, codes.Unimplemented:
		return true
	}
	return false
}

// clientSessions keeps sessions at the server that leads.
type clientSessions struct {
	client *Client
	mono   func() time.Duration
}

func (k clientSessions) open(ctx context.Context) (grant, error) {
	// Without an answer there may be a session that nobody renews, and another is opened.
	var g grant
	err := k.client.callLeader(ctx, "opening a session", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		since := k.mono()
		resp, err := tsopb.NewSessionsClient(conn).OpenSession(ctx, &tsopb.OpenSessionRequest{})
		g = grant{id: resp.GetId(), lease: leaseOf(resp.GetLeaseMs()), since: since}
		return err
	})
	if err == nil {
		err = g.check()
	}
	return g, err
}

func (k clientSessions) keepAlive(ctx context.Context, id string) (grant, error) {
	g := grant{id: id}
	err := k.client.callLeader(ctx, "renewing a session", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		g.since = k.mono()
		resp, err := tsopb.NewSessionsClient(conn).KeepAlive(ctx, &tsopb.KeepAliveRequest{Id: id})
		g.lease = leaseOf(resp.GetLeaseMs())
		return err
	})
	if err == nil {
		err = g.check()
	}
	return g, err
}

func (k clientSessions) end(ctx context.Context, id string) error {
	return k.client.callLeader(ctx, "ending a session", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := tsopb.NewSessionsClient(conn).CloseSession(ctx, &tsopb.CloseSessionRequest{Id: id})
		return err
	})
}

// leaseOf is the lease that a server granted.
func leaseOf(ms int64) time.Duration {
	if ms < minSessionLease.Milliseconds() || ms > maxSessionLease.Milliseconds() {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// check returns an error unless a server may grant g.
func (g grant) check() error {
	if !record.IsSessionID(g.id) || g.lease == 0 {
		return fmt.Errorf("tso: %w: the server answered with the session %.80q, or a lease out of bounds", ErrUnavailable, g.id)
	}
	return nil
}
