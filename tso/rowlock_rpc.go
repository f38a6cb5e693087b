package tso

import (
	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// LockRows implements [RowLocks] for callers in the same process. It does not wait: ErrNotLeader
// and ErrUnavailable mean that this server keeps no locks at present. ErrLimit: too many rows are
// locked.
func (s *Server) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (locked int, err error) {
	if err := checkLockRows(ctx, holder, ttl, rows); err != nil {
		return 0, err
	}
	err = s.keeps(func(t *tenure) error {
		locked, err = t.rowLocks.lock(peerOf(ctx), holder, ttl, rows)
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

// LockRows implements [RowLocks]. A change of leader goes unnoticed: the locks are gone, and the
// next call gets them from the new leader. ErrLimit: too many rows are locked. ErrUnavailable, and
// ctx's error: the oracle could not be asked.
func (c *Client) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	if err := checkLockRows(ctx, holder, ttl, rows); err != nil {
		return 0, err
	}
	// In whole milliseconds, not fewer than asked for.
	req := &tsopb.LockRowsRequest{Holder: holder, TtlMs: (ttl + time.Millisecond - 1).Milliseconds(), Rows: rows}
	resp, err := callLeader(ctx, c, 0, "locking rows", func(ctx context.Context, p *peer) (*tsopb.LockRowsResponse, error) {
		return p.rowLocks.LockRows(ctx, req)
	})
	if locked := int(resp.GetLocked()); locked > len(rows) {
		return 0, fmt.Errorf("tso: locking rows: %w: the server answered that %d of %d are locked", ErrUnavailable, locked, len(rows))
	}
	return int(resp.GetLocked()), err
}

// UnlockRows implements [RowLocks]. Without an answer the locks expire.
func (c *Client) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	if err := checkRowLocks(ctx, holder, rows); err != nil {
		return err
	}
	_, err := callLeader(ctx, c, 0, "unlocking rows", func(ctx context.Context, p *peer) (*tsopb.UnlockRowsResponse, error) {
		return p.rowLocks.UnlockRows(ctx, &tsopb.UnlockRowsRequest{Holder: holder, Rows: rows})
	})
	return err
}
