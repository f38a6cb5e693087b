package tso

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// rowLockService is the gRPC service of a Server's row locks.
type rowLockService struct {
	tsopb.UnimplementedRowLocksServer
	server *Server
}

// LockRows implements the service.
func (s *rowLockService) LockRows(ctx context.Context, req *tsopb.LockRowsRequest) (*tsopb.LockRowsResponse, error) {
	// Out of bounds stays out of bounds, without an overflow.
	ttl := time.Duration(min(max(req.GetTtlMs(), 0), 2*maxRowLockTTL.Milliseconds())) * time.Millisecond
	locked, err := s.server.LockRows(ctx, req.GetHolder(), ttl, req.GetRows())
	if err != nil {
		return nil, toLivenessStatus(err)
	}
	return &tsopb.LockRowsResponse{Locked: uint32(locked)}, nil
}

// UnlockRows implements the service.
func (s *rowLockService) UnlockRows(ctx context.Context, req *tsopb.UnlockRowsRequest) (*tsopb.UnlockRowsResponse, error) {
	if err := s.server.UnlockRows(ctx, req.GetHolder(), req.GetRows()); err != nil {
		return nil, toLivenessStatus(err)
	}
	return &tsopb.UnlockRowsResponse{}, nil
}
