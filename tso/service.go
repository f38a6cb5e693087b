package tso

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// MaxBatch is how many timestamps can be asked for in one call of the service.
const MaxBatch = 1 << 16

// Bounds of the gRPC server. A request is a few bytes; the largest asks for 1,000
// sessions.
const (
	maxRequestBytes   = maxSessionsBytes
	maxHeaderBytes    = 16 << 10
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
	calls := &callCap{max: int64(s.cfg.MaxCalls)}
	opts := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(calls.unary),
		grpc.ChainStreamInterceptor(calls.stream),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes), // see dial
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
	tsopb.RegisterOracleServer(rpc, &service{server: s})
	tsopb.RegisterSessionsServer(rpc, &sessionService{keeper: serverSessions{s}})
	tsopb.RegisterRowLocksServer(rpc, &rowLockService{server: s})
	tsopb.RegisterHintsServer(rpc, &hintService{server: s})
	tsopb.RegisterStatusServer(rpc, &statusService{server: s})
	healthpb.RegisterHealthServer(rpc, s.health)
	if s.cfg.Register != nil {
		s.cfg.Register(rpc)
	}
	return rpc, netutil.LimitListener(l, s.cfg.MaxConnections)
}

// stopGracefully lets the calls on the way finish, but not for long.
func stopGracefully(rpc *grpc.Server) {
	timer := time.AfterFunc(gracefulStop, rpc.Stop)
	defer timer.Stop()
	rpc.GracefulStop()
}

// Next implements the service.
func (s *service) Next(ctx context.Context, req *tsopb.NextRequest) (*tsopb.NextResponse, error) {
	count := req.GetCount()
	if count < 1 || count > MaxBatch {
		return nil, status.Errorf(codes.InvalidArgument, "count %d is not between 1 and %d", count, MaxBatch)
	}
	after := Timestamp(req.GetAfter())
	if after < 0 || after > MaxTimestamp {
		return nil, status.Errorf(codes.InvalidArgument, "after %d is not between 0 and %d", after, MaxTimestamp)
	}
	first, err := s.server.take(ctx, int(count))
	if err != nil {
		return nil, toStatus(err)
	}
	if err := s.server.checkAfter(first, after); err != nil {
		return nil, status.Error(codes.DataLoss, err.Error())
	}
	return &tsopb.NextResponse{First: int64(first), Count: count}, nil
}

// toStatus makes a gRPC status of an error of take.
func toStatus(err error) error {
	var follower *NotLeaderError
	switch {
	case errors.As(err, &follower):
		st := status.New(codes.FailedPrecondition, err.Error())
		if detailed, err := st.WithDetails(&tsopb.NotLeader{Address: follower.Leader}); err == nil {
			st = detailed
		}
		return st.Err()
	case errors.Is(err, ErrExhausted):
		return status.Error(codes.OutOfRange, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, err.Error())
}
