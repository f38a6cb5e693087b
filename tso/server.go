package tso

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Server is one of the servers of an oracle. Any number of servers may share a store under one
// name; one of them leads at a time and hands out timestamps, the others stand by.
type Server struct {
	cfg     ServerConfig
	alloc   *allocator
	elector *elector
	watch   *storeWatch
	health  *healthService
	address atomic.Pointer[string] // the listener's, when that is the advertised one
	warning string                 // of the store, for the log
	started atomic.Bool

	// lost limits reports of lost timestamps in the log to one a minute, so that a client with a
	// wrong number neither fills the log nor hides a loss for good.
	lost rate.Sometimes

	ended chan struct{} // closed when Run has returned

	liveness *liveness
	sessions sessionSet // of this process
}

// NewServer returns a server that keeps its record in store. It does nothing until Serve or Run is
// called. ErrInvalidArgument: cfg is out of bounds.
func NewServer(store Store, cfg ServerConfig) (*Server, error) {
	c := newClock(cfg.Now)
	if cfg.Uptime != nil {
		c.mono = func() time.Duration { mono, _ := cfg.Uptime(); return mono }
		c.boot = func() time.Duration { _, boot := cfg.Uptime(); return boot }
	}
	return newServer(store, cfg, c)
}

func newServer(store Store, cfg ServerConfig, c clock) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if store == nil {
		return nil, fmt.Errorf("tso: %w: no store", ErrInvalidArgument)
	}
	id := uuid.NewString()
	alloc := newAllocator(c, cfg.Window)
	watch := &storeWatch{Store: store, clock: c, active: c.mono(), answered: -1}
	warning := ""
	if w, ok := store.(warner); ok {
		warning = w.Warning()
	}
	keeps := newLiveness(store, cfg, c, alloc)
	server := &Server{
		cfg: cfg, warning: warning,
		alloc: alloc,
		elector: &elector{
			timing: newTiming(cfg.Lease, cfg.Window), clock: c, store: watch, alloc: alloc, keeps: keeps,
			id: id, address: cfg.Advertise, logger: cfg.Logger.With("server", id),
			requireRecord: cfg.RequireRecord, served: cfg.Served,
		},
		watch:  watch,
		health: newHealthService(),
		ended:  make(chan struct{}),
		lost:   rate.Sometimes{Interval: time.Minute},

		liveness: keeps,
	}
	keeps.leader = server.elector.leaderAddress
	return server, nil
}

// Run takes part in the election of the leader, and leads when elected, until ctx ends; it then
// hands the lease over, for at most a second, and returns nil. It listens nowhere: Next hands out
// timestamps in this process. A server runs once.
//
// Run returns an error if the record cannot be read or written for a permanent reason, such as a
// missing table; ErrCorrupt if the record is damaged; ErrNoRecord if it is missing and required;
// ErrExhausted.
func (s *Server) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return fmt.Errorf("tso: %w: a server runs only once", ErrInvalidArgument)
	}
	return s.run(ctx)
}

func (s *Server) run(ctx context.Context) error {
	defer close(s.ended)
	unregister, err := s.registerMetrics()
	if err != nil {
		return err
	}
	defer unregister()
	if s.warning != "" {
		s.cfg.Logger.Warn(s.warning)
	}
	defer s.sessions.close()
	defer s.liveness.wait()
	return s.elector.run(ctx)
}

// Serve is Run with a gRPC server on l, which it closes. When ctx ends, it hands the lease over,
// finishes the calls in flight, and returns nil. See Run for the errors; ErrInvalidArgument also
// means plaintext on an address that is not loopback, or an address that cannot be advertised.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if !s.started.CompareAndSwap(false, true) {
		return fmt.Errorf("tso: %w: a server runs only once", ErrInvalidArgument)
	}
	if err := s.checkListener(l); err != nil {
		close(s.ended)
		return errors.Join(err, l.Close())
	}
	rpc, listener := s.newGRPC(l)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		stopHealth := s.reportHealth(ctx)
		err := s.run(ctx)
		stopHealth() // before the listener is closed
		stopGracefully(rpc)
		return err
	})
	group.Go(func() error {
		// ErrServerStopped: ctx ended before this began.
		if err := rpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("tso: serving on %s: %w", l.Addr(), err)
		}
		return nil
	})
	return group.Wait()
}

// checkListener chooses the address under which others find this server.
func (s *Server) checkListener(l net.Listener) error {
	if s.cfg.Credentials == nil && !s.cfg.AllowPlaintext && !isLocal(l) {
		return fmt.Errorf("tso: %w: plaintext on %s, which is not a loopback address, without AllowPlaintext", ErrInvalidArgument, l.Addr())
	}
	if s.cfg.Advertise != "" {
		return nil
	}
	if _, ok := l.Addr().(*net.TCPAddr); !ok {
		return nil // nothing that others could dial
	}
	if err := checkAddress(l.Addr().String()); err != nil {
		return fmt.Errorf("tso: %w: Advertise is needed: the listener's address %w", ErrInvalidArgument, err)
	}
	address := l.Addr().String()
	s.elector.address = address
	s.address.Store(&address)
	return nil
}

// nextTimeout bounds Next of a server whose caller has set no deadline.
const nextTimeout = 10 * time.Second

// Next implements [Oracle] for callers in the same process. While this server does not lead, or
// cannot reserve timestamps, Next waits, at most for 10 s; the error then satisfies errors.Is with
// ErrNotLeader or ErrUnavailable. ErrClosed: Run has ended.
func (s *Server) Next(ctx context.Context) (Timestamp, error) { return s.next(ctx, 1) }

// NextBlock implements [Blocks]. It is Next but for the number.
func (s *Server) NextBlock(ctx context.Context, n int) (Timestamp, error) {
	if err := checkBlock(n); err != nil {
		return 0, err
	}
	return s.next(ctx, n)
}

func (s *Server) next(ctx context.Context, n int) (Timestamp, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("tso: asking for a timestamp: %w", err)
	}
	ts, err := s.take(ctx, n)
	if err == nil {
		return ts, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nextTimeout)
	defer cancel()
	for {
		changed := s.alloc.watch()
		ts, err := s.take(ctx, n)
		if err == nil || errors.Is(err, ErrExhausted) {
			return ts, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, record.WithContext(ctx, err)
		case <-s.ended:
			return 0, fmt.Errorf("tso: %w", ErrClosed)
		}
	}
}

// take hands out n timestamps if this server leads.
func (s *Server) take(ctx context.Context, n int) (Timestamp, error) {
	first, err := s.alloc.take(ctx, n)
	return first, s.named(err)
}

// named names the leader if err is that this server does not lead.
func (s *Server) named(err error) error {
	if errors.Is(err, errNotLeading) {
		return &NotLeaderError{Leader: s.elector.leaderAddress()}
	}
	return err
}
