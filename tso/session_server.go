package tso

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

var (
	_ coordination.Sessions = (*Server)(nil)
	_ coordination.RowLocks = (*Server)(nil)
	_ coordination.Sessions = (*Client)(nil)
	_ coordination.RowLocks = (*Client)(nil)
)

// OpenSession implements [coordination.Sessions] for callers in the same process: the session lives
// while this server leads. Run ends it. ErrUnsupported: the server's [Store] is no
// [coordination.SessionStore]. ErrLimit: the process already has 64. ErrClosed: Run has ended.
func (s *Server) OpenSession() (coordination.Session, error) {
	if s.liveness.sessions.store == nil {
		return nil, fmt.Errorf("tso: opening a session: %w: its store keeps none", ErrUnsupported)
	}
	return s.sessions.start(serverSessions{s}, s.liveness.sessions.clock)
}

// EndedSessions implements [coordination.Sessions] for callers in the same process. It does not
// wait: ErrNotLeader, ErrUnavailable and ErrUnsupported mean that this server does not know.
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

// liveness keeps sessions, row locks and hints while this server leads.
type liveness struct {
	sessions sessionConfig
	rowLocks int           // the most row locks
	hints    int           // the most hints
	share    int           // of one peer, in percent
	leader   func() string // the address of who leads

	current atomic.Pointer[tenure]
	running sync.WaitGroup
}

func newLiveness(store Store, cfg ServerConfig, c clock, alloc *allocator) *liveness {
	keeper, _ := store.(coordination.SessionStore)
	return &liveness{
		sessions: sessionConfig{
			store: keeper, lease: cfg.SessionLease, most: cfg.MaxSessions, share: cfg.PeerShare, clock: c, logger: cfg.Logger,
			leads: func() bool { return alloc.report().holds },
		},
		rowLocks: cfg.MaxRowLocks,
		hints:    cfg.MaxHints,
		share:    cfg.PeerShare,
	}
}

// tenure is what a leader keeps from the beginning of its leadership to the end.
type tenure struct {
	sessions *sessionTenure
	rowLocks *rowLockTable
	hints    *hintTable
	ctx      context.Context // ends with the tenure
	stop     context.CancelFunc
}

// begin is called when this server becomes the leader, end when it no longer is. ctx ends with the
// server. Calls of former tenures only touch what belongs to their tenure.
func (l *liveness) begin(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	t := &tenure{
		sessions: newSessionTenure(l.sessions),
		rowLocks: newRowLockTable(l.rowLocks, l.share, l.sessions.mono),
		hints:    newHintTable(l.hints, l.share, l.sessions.mono),
		ctx:      ctx,
		stop:     cancel,
	}
	l.current.Store(t)
	l.running.Go(func() { t.sessions.run(ctx) })
	l.running.Go(func() { t.rowLocks.run(ctx) })
	l.running.Go(func() { t.hints.run(ctx) })
}

func (l *liveness) end() {
	if t := l.current.Swap(nil); t != nil {
		t.stop()
	}
}

// wait returns when nothing of this server's tenures runs any more.
func (l *liveness) wait() { l.running.Wait() }

// do calls f with what this server keeps as the leader. It checks that the server leads, by its own
// clocks, before f, because f may write to the store, and after, because a process that was stopped
// in between could know less than its successor. Correctness does not need the checks
// (docs/internals/PROTOCOL.md, I8); they spare others work.
func (l *liveness) do(f func(t *tenure) error) error {
	t := l.current.Load()
	if err := l.check(t); err != nil {
		return err
	}
	result := f(t)
	if err := l.check(t); err != nil {
		return err
	}
	return result
}

// check returns an error unless this server leads, in the tenure t.
func (l *liveness) check(t *tenure) error {
	switch {
	case t == nil || l.current.Load() != t:
		return &NotLeaderError{Leader: l.leader()}
	case !l.sessions.leads():
		return fmt.Errorf("tso: %w: its lease has ended and could not be renewed", ErrUnavailable)
	}
	return nil
}

// counts returns how many sessions are open and how many rows are locked here.
func (l *liveness) counts() (sessions, rowLocks int) {
	t := l.current.Load()
	if t == nil {
		return 0, 0
	}
	return t.sessions.count(), t.rowLocks.count()
}
