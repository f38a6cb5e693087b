package tso

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/tso/tsopb"

	"github.com/gopercolator/percolator/tso/internal/record"
)

var (
	_ Sessions = (*Server)(nil)
	_ RowLocks = (*Server)(nil)
	_ Sessions = (*Client)(nil)
	_ RowLocks = (*Client)(nil)
)

// OpenSession implements [Sessions] for callers in the same process: the session lives while this
// server leads. Run ends it. ErrUnsupported: the server's [Store] is no [SessionStore]. ErrLimit:
// the process already has 64. ErrClosed: Run has ended.
func (s *Server) OpenSession() (Session, error) {
	if s.liveness.sessions.store == nil {
		return nil, fmt.Errorf("tso: opening a session: %w: its store keeps none", ErrUnsupported)
	}
	return s.sessions.start(serverSessions{s}, s.liveness.sessions.clock)
}

// EndedSessions implements [Sessions] for callers in the same process. It does not wait:
// ErrNotLeader, ErrUnavailable and ErrUnsupported mean that this server does not know.
func (s *Server) EndedSessions(ctx context.Context, ids ...string) (ended []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("tso: asking for sessions: %w", err)
	}
	if err := checkAskedSessions(ids); err != nil {
		return nil, err
	}
	err = s.keeps(func(t *tenure) error {
		ended, err = t.sessions.ended(ids)
		return err
	})
	return ended, err
}

// checkAskedSessions returns an error unless a client can ask for ids. An id that no session can
// have is allowed, because a lock may contain it; the empty one means no session, and asking for it
// is a mistake.
func checkAskedSessions(ids []string) error {
	if len(ids) > record.MaxSessionIDs {
		return fmt.Errorf("tso: %w: asking for %d sessions, more than %d", ErrInvalidArgument, len(ids), record.MaxSessionIDs)
	}
	for _, id := range ids {
		if id == "" {
			return fmt.Errorf("tso: %w: asking for a session without an id", ErrInvalidArgument)
		}
	}
	return nil
}

// keeps calls f with what this server keeps, if it leads.
func (s *Server) keeps(f func(t *tenure) error) error {
	select {
	case <-s.ended:
		return fmt.Errorf("tso: %w", ErrClosed)
	default:
		return s.liveness.do(f)
	}
}

// serverSessions keeps the sessions of a server's own process.
type serverSessions struct{ server *Server }

func (k serverSessions) open(ctx context.Context) (grant, error) {
	g := grant{lease: k.server.liveness.sessions.lease, since: k.server.liveness.sessions.clock.moment()}
	err := k.server.keeps(func(t *tenure) (err error) {
		g.id, err = t.sessions.begin(ctx)
		return err
	})
	return g, err
}

func (k serverSessions) keepAlive(ctx context.Context, id string) (grant, error) {
	g := grant{id: id, lease: k.server.liveness.sessions.lease, since: k.server.liveness.sessions.clock.moment()}
	return g, k.server.keeps(func(t *tenure) error { return t.sessions.renew(ctx, id) })
}

func (k serverSessions) end(ctx context.Context, id string) error {
	return k.server.keeps(func(t *tenure) error { return t.sessions.finish(ctx, id) })
}

// sessionService is the gRPC service of a Server's sessions.
type sessionService struct {
	tsopb.UnimplementedSessionsServer
	keeper serverSessions
}

// OpenSession implements the service.
func (s *sessionService) OpenSession(ctx context.Context, _ *tsopb.OpenSessionRequest) (*tsopb.OpenSessionResponse, error) {
	g, err := s.keeper.open(ctx)
	return &tsopb.OpenSessionResponse{Id: g.id, LeaseMs: g.lease.Milliseconds()}, err
}

// KeepAlive implements the service.
func (s *sessionService) KeepAlive(ctx context.Context, req *tsopb.KeepAliveRequest) (*tsopb.KeepAliveResponse, error) {
	g, err := s.keeper.keepAlive(ctx, req.GetId())
	return &tsopb.KeepAliveResponse{LeaseMs: g.lease.Milliseconds()}, err
}

// CloseSession implements the service.
func (s *sessionService) CloseSession(ctx context.Context, req *tsopb.CloseSessionRequest) (*tsopb.CloseSessionResponse, error) {
	return &tsopb.CloseSessionResponse{}, s.keeper.end(ctx, req.GetId())
}

// EndedSessions implements the service.
func (s *sessionService) EndedSessions(ctx context.Context, req *tsopb.EndedSessionsRequest) (*tsopb.EndedSessionsResponse, error) {
	ids, err := s.keeper.server.EndedSessions(ctx, req.GetIds()...)
	return &tsopb.EndedSessionsResponse{Ids: ids}, err
}
