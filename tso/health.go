package tso

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// healthService is gRPC's standard health service. The service "" is SERVING while the server is
// ready (Status.Ready), the service percolator.tso.v1.Oracle while it leads.
type healthService struct {
	*health.Server
	stopped chan struct{} // closed when everything is NOT_SERVING for good
}

// oracleService is the health service that shows whether this server leads.
const oracleService = "percolator.tso.v1.Oracle"

func newHealthService() *healthService {
	h := &healthService{Server: health.NewServer(), stopped: make(chan struct{})}
	h.set(Status{})
	return h
}

func (h *healthService) set(st Status) {
	h.SetServingStatus("", serving(st.Ready() == nil))
	h.SetServingStatus(oracleService, serving(st.Leading))
}

func serving(yes bool) healthpb.HealthCheckResponse_ServingStatus {
	if yes {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}

// healthPoll is how late health may be about what no event announces: the end of a lease, or a
// store that has been silent for too long.
const healthPoll = 100 * time.Millisecond

// reportHealth keeps the health service up to date until ctx ends or a caller calls stop; after
// that everything is NOT_SERVING.
func (s *Server) reportHealth(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(s.health.stopped)
		defer s.health.Shutdown()
		tick := time.NewTicker(healthPoll)
		defer tick.Stop()
		for {
			changed := s.alloc.watch()
			s.health.set(s.Status())
			select {
			case <-changed:
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-s.health.stopped
	}
}

// Watch implements the service. A stream that has sent NOT_SERVING ends when the server stops, so
// that stopping need not wait for the clients.
func (h *healthService) Watch(req *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	w := &healthStream{Health_WatchServer: stream, ctx: ctx, end: cancel, stopped: h.stopped}
	defer cancel()
	go func() {
		select {
		case <-h.stopped:
			if w.idle.Load() {
				cancel()
			}
		case <-ctx.Done():
		}
	}()
	return h.Server.Watch(req, w)
}

// healthStream is the stream of a Watch.
type healthStream struct {
	healthpb.Health_WatchServer
	ctx     context.Context
	end     context.CancelFunc
	stopped <-chan struct{}
	idle    atomic.Bool // what was sent last is not SERVING
}

func (w *healthStream) Context() context.Context { return w.ctx }

// Send implements the stream. Whichever comes last, NOT_SERVING or the end of the server, ends it.
func (w *healthStream) Send(resp *healthpb.HealthCheckResponse) error {
	err := w.Health_WatchServer.Send(resp)
	idle := resp.GetStatus() != healthpb.HealthCheckResponse_SERVING
	w.idle.Store(idle)
	select {
	case <-w.stopped:
		if idle {
			w.end()
		}
	default:
	}
	return err
}

// statusService answers operators.
type statusService struct {
	tsopb.UnimplementedStatusServer
	server *Server
}

// GetStatus implements the service. It does not return what an error of the store says, which may
// name what only the operators of the server should know. That is in the server's log.
func (s *statusService) GetStatus(context.Context, *tsopb.GetStatusRequest) (*tsopb.GetStatusResponse, error) {
	st := s.server.Status()
	resp := &tsopb.GetStatusResponse{
		Server: st.Server, Version: s.server.cfg.Version, Leading: st.Leading, Leader: st.Leader,
		Epoch: st.Record.Epoch, Record: st.Record.Version, HighWater: int64(st.Record.HighWater), Served: st.Served,
		StoreAnsweredMs: st.StoreAnswered.Milliseconds(), Ready: true,
	}
	if st.StoreAnswered < 0 {
		resp.StoreAnsweredMs = -1
	}
	if err := st.Ready(); err != nil {
		resp.Ready, resp.Reason = false, err.Error()
	}
	return resp, nil
}

// AskStatus asks the server at address, host:port, what it knows about itself and its oracle. It
// does not follow the leader. The options are those of [Dial], whose WithTimeout bounds the whole
// call. Errors: ErrInvalidArgument, ErrUnavailable, ctx's.
func AskStatus(ctx context.Context, address string, opts ...DialOption) (_ *tsopb.GetStatusResponse, err error) {
	if err := checkAddress(address); err != nil {
		return nil, fmt.Errorf("tso: %w: %w", ErrInvalidArgument, err)
	}
	o := newDialOptions(opts)
	conn, err := o.dial(address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	resp, err := tsopb.NewStatusClient(conn).GetStatus(ctx, &tsopb.GetStatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("tso: %w: %s: %w", ErrUnavailable, address, record.WithContext(ctx, err))
	}
	return resp, nil
}
