package tso

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// LockRows implements [RowLocks]. A change of leader is not noticed: the locks are
// gone, and the next call gets them from the new leader. ErrLimit: too many rows are
// locked. ErrUnavailable, and ctx's error: the oracle could not be asked.
func (c *Client) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	if err := checkLockRows(ctx, holder, ttl, rows); err != nil {
		return 0, err
	}
	// In whole milliseconds, not fewer than asked for.
	ms := (ttl + time.Millisecond - 1).Milliseconds()
	locked := 0
	err := c.callLeader(ctx, "locking rows", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		resp, err := tsopb.NewRowLocksClient(conn).LockRows(ctx, &tsopb.LockRowsRequest{Holder: holder, TtlMs: ms, Rows: rows})
		locked = int(resp.GetLocked())
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case locked > len(rows):
		return 0, fmt.Errorf("tso: locking rows: %w: the server answered that %d of %d are locked", ErrUnavailable, locked, len(rows))
	}
	return locked, nil
}

// UnlockRows implements [RowLocks]. Without an answer the locks expire.
func (c *Client) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	if err := checkRowLocks(ctx, holder, rows); err != nil {
		return err
	}
	return c.callLeader(ctx, "unlocking rows", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := tsopb.NewRowLocksClient(conn).UnlockRows(ctx, &tsopb.UnlockRowsRequest{Holder: holder, Rows: rows})
		return err
	})
}
