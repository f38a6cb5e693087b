package tso

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// sessionService is the gRPC service of a Server's sessions.
type sessionService struct {
	tsopb.UnimplementedSessionsServer
	keeper serverSessions
}

// OpenSession implements the service.
func (s *sessionService) OpenSession(ctx context.Context, _ *tsopb.OpenSessionRequest) (*tsopb.OpenSessionResponse, error) {
	g, err := s.keeper.open(ctx)
	if err != nil {
		return nil, toLivenessStatus(err)
	}
	return &tsopb.OpenSessionResponse{Id: g.id, LeaseMs: g.lease.Milliseconds()}, nil
}

// KeepAlive implements the service.
func (s *sessionService) KeepAlive(ctx context.Context, req *tsopb.KeepAliveRequest) (*tsopb.KeepAliveResponse, error) {
	g, err := s.keeper.keepAlive(ctx, req.GetId())
	if err != nil {
		return nil, toLivenessStatus(err)
	}
	return &tsopb.KeepAliveResponse{LeaseMs: g.lease.Milliseconds()}, nil
}

// CloseSession implements the service.
func (s *sessionService) CloseSession(ctx context.Context, req *tsopb.CloseSessionRequest) (*tsopb.CloseSessionResponse, error) {
	if err := s.keeper.end(ctx, req.GetId()); err != nil {
		return nil, toLivenessStatus(err)
	}
	return &tsopb.CloseSessionResponse{}, nil
}

// EndedSessions implements the service.
func (s *sessionService) EndedSessions(_ context.Context, req *tsopb.EndedSessionsRequest) (*tsopb.EndedSessionsResponse, error) {
	ids, err := s.keeper.server.endedSessions(req.GetIds())
	if err != nil {
		return nil, toLivenessStatus(err)
	}
	return &tsopb.EndedSessionsResponse{Ids: ids}, nil
}

// livenessCodes are the errors that clients tell apart, beside those of toStatus.
var livenessCodes = []struct {
	err  error
	code codes.Code
}{
	{errSessionEnded, codes.NotFound},
	{ErrInvalidArgument, codes.InvalidArgument},
	{ErrLimit, codes.ResourceExhausted},
	{ErrUnsupported, codes.Unimplemented},
}

// toLivenessStatus makes a gRPC status of an error of sessions and row locks. What the
// store said comes last: its codes are not ours.
func toLivenessStatus(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return toStatus(err)
	}
	for _, known := range livenessCodes {
		if errors.Is(err, known.err) {
			return status.Error(known.code, err.Error())
		}
	}
	return toStatus(err)
}

// fromLivenessStatus is the inverse of toLivenessStatus.
func fromLivenessStatus(err error) error {
	code := status.Code(err)
	for _, known := range livenessCodes {
		if code == known.code && !errors.Is(err, known.err) {
			return fmt.Errorf("%w: %w", known.err, err)
		}
	}
	return err
}
