package tso

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// MaxBatch, 65,536, is how many timestamps one call can ask for. Beyond it a call returns
// ErrInvalidArgument; clients make several calls.
const MaxBatch = 1 << 16

// Bounds of the gRPC server. A request is a few bytes; the largest asks for 1,000 sessions.
const (
	maxRequestBytes   = maxSessionsBytes
	maxHeaderBytes    = 16 << 10
	requestWindow     = 1<<16 - 1        // HTTP/2's least: what a client may send ahead on a stream
	clientPingAfter   = 30 * time.Second // a connection without traffic is tested then
	clientPingTimeout = 10 * time.Second
	clientPingLeast   = 5 * time.Second // clients that ping more often are cut off
	gracefulStop      = time.Second
)

// service is the gRPC service of a Server.
type service struct {
	tsopb.UnimplementedOracleServer
	server *Server
}

// newGRPC returns the gRPC server for l and the listener for it to serve on.
func (s *Server) newGRPC(l net.Listener) (*grpc.Server, net.Listener) {
	calls := newCallCap(s.cfg.MaxCalls, s.cfg.PeerShare)
	guard := newConnGuard(l, s.cfg.MaxConnections, s.cfg.PeerShare)
	answering := newAnswers(calls, s.cfg.PeerShare, guard.closePeer)
	arriving := newArrivals(s.cfg.MaxCalls, s.cfg.PeerShare, guard.called)
	opts := []grpc.ServerOption{
		grpc.InTapHandle(arriving.begin),
		grpc.ChainUnaryInterceptor(unaryArrived, answering.unary, withStatus),
		grpc.ChainStreamInterceptor(streamArrived, answering.stream),
		grpc.ForceServerCodecV2(newAnswerCodec()),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InitialWindowSize(requestWindow), grpc.InitialConnWindowSize(windowBytes), // see dial
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams)),
		grpc.ConnectionTimeout(s.cfg.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: s.cfg.IdleTimeout, Time: clientPingAfter, Timeout: clientPingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: clientPingLeast, PermitWithoutStream: true}),
	}
	if s.cfg.Credentials != nil {
		opts = append(opts, grpc.Creds(s.cfg.Credentials))
	}
	rpc := grpc.NewServer(opts...)
	s.register(rpc)
	healthpb.RegisterHealthServer(rpc, s.health)
	if s.cfg.Register != nil {
		s.cfg.Register(rpc)
	}
	return rpc, netutil.LimitListener(guard, s.cfg.MaxConnections)
}

// register adds the oracle's services.
func (s *Server) register(to grpc.ServiceRegistrar) {
	tsopb.RegisterOracleServer(to, &service{server: s})
	tsopb.RegisterSessionsServer(to, &sessionService{keeper: serverSessions{s}})
	tsopb.RegisterRowLocksServer(to, &rowLockService{server: s})
	tsopb.RegisterHintsServer(to, &hintService{server: s})
	tsopb.RegisterStatusServer(to, &statusService{server: s})
}

// stopGracefully lets the calls in flight finish, but not for long.
func stopGracefully(rpc *grpc.Server) {
	timer := time.AfterFunc(gracefulStop, rpc.Stop)
	defer timer.Stop()
	rpc.GracefulStop()
}

// Next implements the service.
func (s *service) Next(ctx context.Context, req *tsopb.NextRequest) (*tsopb.NextResponse, error) {
	count, after := req.GetCount(), Timestamp(req.GetAfter())
	switch {
	case count < 1 || count > MaxBatch:
		return nil, fmt.Errorf("tso: %w: count %d is not between 1 and %d", ErrInvalidArgument, count, MaxBatch)
	case after < 0 || after > MaxTimestamp:
		return nil, fmt.Errorf("tso: %w: after %d is not between 0 and %d", ErrInvalidArgument, after, MaxTimestamp)
	}
	if req.GetConfirm() {
		if err := s.server.confirm(ctx); err != nil {
			return nil, err
		}
	}
	first, err := s.server.take(ctx, int(count))
	if err == nil && first <= after {
		err = s.server.reportLoss(ctx, first, after)
	}
	ahead := first.Sub(s.server.alloc.clock.now()) > maxAhead
	return &tsopb.NextResponse{First: int64(first), Count: count, Ahead: ahead}, err
}

// maxAhead is how far timestamps may be ahead of the clock of their server before its answers say
// so: the standard window, by which they jump ahead when the leader changes.
const maxAhead = 3 * time.Second

// confirm makes sure that this server leads, by a write to the store.
func (s *Server) confirm(ctx context.Context) error { return s.named(s.alloc.confirm(ctx)) }

// reportLoss reports that after, the greatest timestamp that a caller has received, is not below
// first, which this server was about to hand out. A former leader that does not know yet that it
// has lost its lease, because no clock shows that its machine was suspended, learns it here, and
// has lost nothing. Otherwise the caller has received after from this oracle, so the record must
// have been lost, or restored from a backup, unnoticed when this server started: ErrCorrupt. What
// was taken is skipped. Other callers get their answers all the same: one that sends a wrong number
// must not be able to stop the oracle.
func (s *Server) reportLoss(ctx context.Context, first, after Timestamp) error {
	if err := s.confirm(ctx); err != nil {
		return err
	}
	s.lost.Do(func() {
		s.cfg.Logger.Error("a client has received a greater timestamp than this oracle hands out: either the client has asked another oracle, "+
			"or the record was lost or restored from a backup; then stop all servers and raise the mark (Raise) above everything that was served",
			"received", int64(after), "next", int64(first))
	})
	return record.Corruptf("the caller has received %d before, and would get %d", after, first)
}

// local is a connection to a server in the same process, without a network.
type local struct {
	methods map[string]localMethod // by full name
	calls   callCap
}

type localMethod struct {
	service any
	handle  grpc.MethodHandler
}

// Local returns a connection to the services of this server for callers in the same process, which
// need no network: they get the answers and errors of [Server.Serve]. Each connection takes
// ServerConfig.MaxCalls calls at once. It refuses streaming calls. Any number of goroutines may use
// it, and it needs no Close. The server itself must run ([Server.Run]).
func (s *Server) Local() grpc.ClientConnInterface {
	l := &local{methods: map[string]localMethod{}, calls: newCallCap(s.cfg.MaxCalls, s.cfg.PeerShare)}
	s.register(l)
	return l
}

// RegisterService implements [grpc.ServiceRegistrar].
func (l *local) RegisterService(d *grpc.ServiceDesc, service any) {
	for _, m := range d.Methods {
		l.methods["/"+d.ServiceName+"/"+m.MethodName] = localMethod{service, m.Handler}
	}
}

// Invoke implements [grpc.ClientConnInterface]. Both sides have messages of their own.
func (l *local) Invoke(ctx context.Context, method string, req, reply any, _ ...grpc.CallOption) error {
	m, ok := l.methods[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	decode := func(into any) error { return copyMessage(into, req) }
	answer, err := m.handle(m.service, ctx, decode, l.intercept)
	if ended := ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	if err != nil {
		return err
	}
	return copyMessage(reply, answer)
}

// intercept is what interceptors do in [Server.Serve].
func (l *local) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return l.calls.unary(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return withStatus(ctx, req, info, handle)
	})
}

// NewStream implements [grpc.ClientConnInterface].
func (l *local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams within a process")
}

func copyMessage(into, from any) error {
	b, err := proto.Marshal(from.(proto.Message))
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, into.(proto.Message))
}

// statusCodes are the errors that clients tell apart, besides NotLeaderError.
var statusCodes = []struct {
	err  error
	code codes.Code
}{
	{errSessionEnded, codes.NotFound},
	{ErrInvalidArgument, codes.InvalidArgument},
	{ErrLimit, codes.ResourceExhausted},
	{ErrUnsupported, codes.Unimplemented},
	{ErrExhausted, codes.OutOfRange},
	{ErrCorrupt, codes.DataLoss},
}

// withStatus makes gRPC statuses of the errors of the oracle's own services.
func withStatus(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	if err != nil && strings.HasPrefix(info.FullMethod, "/percolator.tso.v1.") {
		return nil, toStatus(err)
	}
	return resp, err
}

// toStatus makes a gRPC status of an error.
func toStatus(err error) error {
	var follower *NotLeaderError
	if errors.As(err, &follower) {
		st := status.New(codes.FailedPrecondition, err.Error())
		if detailed, err := st.WithDetails(&tsopb.NotLeader{Address: follower.Leader}); err == nil {
			st = detailed
		}
		return st.Err()
	}
	if !errors.Is(err, ErrUnavailable) { // which may come with an error of the store
		// A proxy's answer looks alike, so clients do not tell it apart.
		if errors.Is(err, errNotOwner) {
			return status.Error(codes.PermissionDenied, err.Error())
		}
		for _, known := range statusCodes {
			if errors.Is(err, known.err) {
				return status.Error(known.code, err.Error())
			}
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, err.Error())
}

// fromStatus is the inverse of toStatus for errors that another server, or a retry, would answer as
// well. It returns nil for others.
func fromStatus(err error) error {
	code := status.Code(err)
	for _, known := range statusCodes {
		if code == known.code {
			return fmt.Errorf("%w: %w", known.err, err)
		}
	}
	return nil
}
