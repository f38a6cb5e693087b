package tso

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// LockRows implements [RowLocks] for callers in the same process. It does not wait: ErrNotLeader and
// ErrUnavailable mean that this server keeps no locks at present. ErrLimit: too many rows are
// locked.
func (s *Server) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (locked int, err error) {
	if err := checkLockRows(ctx, holder, ttl, rows); err != nil {
		return 0, err
	}
	err = s.keeps(func(t *tenure) error {
		locked, err = t.rowLocks.lock(holder, ttl, rows)
		return err
	})
	return locked, err
}

// UnlockRows implements [RowLocks] for callers in the same process. See LockRows for the errors.
func (s *Server) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	if err := checkRowLocks(ctx, holder, rows); err != nil {
		return err
	}
	return s.keeps(func(t *tenure) error {
		t.rowLocks.unlock(holder, rows)
		return nil
	})
}

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
	return &tsopb.LockRowsResponse{Locked: uint32(locked)}, err
}

// UnlockRows implements the service.
func (s *rowLockService) UnlockRows(ctx context.Context, req *tsopb.UnlockRowsRequest) (*tsopb.UnlockRowsResponse, error) {
	return &tsopb.UnlockRowsResponse{}, s.server.UnlockRows(ctx, req.GetHolder(), req.GetRows())
}
