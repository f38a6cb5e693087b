package tso

import (
	"context"
	"time"
)

// LockRows implements [RowLocks] for callers in the same process. It does not wait:
// ErrNotLeader and ErrUnavailable mean that this server keeps no locks at present.
// ErrLimit: too many rows are locked.
func (s *Server) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	if err := checkLockRows(ctx, holder, ttl, rows); err != nil {
		return 0, err
	}
	locked := 0
	err := s.keeps(func(t *tenure) (err error) {
		locked, err = t.rowLocks.lock(holder, ttl, rows)
		return err
	})
	if err != nil {
		return 0, err
	}
	return locked, nil
}

// UnlockRows implements [RowLocks] for callers in the same process. See LockRows for
// the errors.
func (s *Server) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	if err := checkRowLocks(ctx, holder, rows); err != nil {
		return err
	}
	return s.keeps(func(t *tenure) error {
		t.rowLocks.unlock(holder, rows)
		return nil
	})
}
