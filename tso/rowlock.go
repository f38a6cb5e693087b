package tso

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/serve"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// Limits of row locks. How many there may be is in [ServerConfig].
const (
	maxRowLockRows   = 1024 // in one call
	maxRowLockHolder = 64   // bytes
	minRowLockTTL    = time.Millisecond
	maxRowLockTTL    = time.Minute
)

const (
	rowLockSweep = 10 * time.Second // between sweeps, while no rows are locked

	// rowLockSweepRows is how many expired locks one sweep removes, with the table locked.
	rowLockSweepRows = 1000
)

// rowLockTable is the row locks of one term of leadership: the paper's lightweight lock service
// (section 2.4). It need not be persistent, because a lost lock only makes two scanners do some
// work twice.
type rowLockTable struct {
	mono func() time.Duration
	held *serve.Quota // locks in memory

	mu       sync.Mutex
	locks    map[uint64]*rowLock // by the hash of the row
	byExpiry ordered.Heap[*rowLock]
}

// rowLock is a row that is locked, or whose lock has expired and was not removed yet.
type rowLock struct {
	row     uint64
	holder  string
	peer    string
	expires time.Duration // by the monotonic clock
	index   int           // in byExpiry
}

func newRowLockTable(most, share int, mono func() time.Duration) *rowLockTable {
	return &rowLockTable{held: serve.NewSharedQuota(most, share), mono: mono, locks: make(map[uint64]*rowLock)}
}

// checkRowLocks returns an error unless holder may lock rows, or unlock them.
func checkRowLocks(ctx context.Context, holder string, rows []uint64) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("tso: locking rows: %w", ctx.Err())
	case holder == "" || len(holder) > maxRowLockHolder || !utf8.ValidString(holder):
		return fmt.Errorf("tso: %w: the holder %.80q is not 1 to %d bytes of UTF-8", ErrInvalidArgument, holder, maxRowLockHolder)
	case len(rows) > maxRowLockRows:
		return fmt.Errorf("tso: %w: %d rows, more than %d", ErrInvalidArgument, len(rows), maxRowLockRows)
	}
	return nil
}

// checkLockRows returns an error unless holder may lock rows for ttl.
func checkLockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) error {
	if ttl < minRowLockTTL || ttl > maxRowLockTTL {
		return fmt.Errorf("tso: %w: locking rows for %v, not for %v to %v", ErrInvalidArgument, ttl, minRowLockTTL, maxRowLockTTL)
	}
	return checkRowLocks(ctx, holder, rows)
}

// lock locks rows for holder, up to the first that another holds, or that exceeds the limit or the
// share of peer, and returns how many. ErrLimit: the first one exceeds it. Who locks a row again,
// or one whose lock has expired, takes over the place that it has in memory.
func (t *rowLockTable) lock(peer, holder string, ttl time.Duration, rows []uint64) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.mono()
	// More than can be added, so that what has expired does not pile up.
	t.sweep(now, 2*len(rows))
	for i, row := range rows {
		l, ok := t.locks[row]
		switch {
		case ok && l.holder != holder && l.expires > now:
			return i, nil
		case ok:
			l.holder, l.expires = holder, now+ttl
			t.byExpiry.Fix(l.index)
		case t.held.Take(peer, 1):
			l = &rowLock{row: row, holder: holder, peer: peer, expires: now + ttl}
			t.locks[row] = l
			t.byExpiry.Push(l)
		case i > 0:
			return i, nil
		default:
			return 0, fmt.Errorf("tso: locking rows: %w: %d are locked", ErrLimit, len(t.locks))
		}
	}
	return len(rows), nil
}

// unlock unlocks those of rows that holder has locked.
func (t *rowLockTable) unlock(holder string, rows []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range rows {
		if l, ok := t.locks[row]; ok && l.holder == holder {
			t.byExpiry.Remove(l.index)
			t.forget(l)
		}
	}
}

// sweep removes expired locks, at most most of them, and returns how many. The caller holds mu.
func (t *rowLockTable) sweep(now time.Duration, most int) int {
	swept := 0
	for ; swept < most && t.byExpiry.Len() > 0 && t.byExpiry.First().expires <= now; swept++ {
		t.forget(t.byExpiry.Pop())
	}
	return swept
}

// forget drops a lock that is no longer in byExpiry. The caller holds mu.
func (t *rowLockTable) forget(l *rowLock) {
	delete(t.locks, l.row)
	t.held.Release(l.peer, 1)
}

// run sweeps until ctx ends, so that memory is freed when no rows are locked any more.
func (t *rowLockTable) run(ctx context.Context) {
	for sleep(ctx, rowLockSweep) == nil {
		for t.sweepSome() == rowLockSweepRows {
		}
	}
}

func (t *rowLockTable) sweepSome() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sweep(t.mono(), rowLockSweepRows)
}

// count returns how many locks are in memory.
func (t *rowLockTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.locks)
}

// Before reports whether l expires before o.
func (l *rowLock) Before(o *rowLock) bool { return l.expires < o.expires }

// Placed notes the place of l in byExpiry.
func (l *rowLock) Placed(at int) { l.index = at }

// LockRows implements [coordination.RowLocks] for callers in the same process. It does not wait:
// ErrNotLeader and ErrUnavailable mean that this server keeps no locks at present. ErrLimit: too
// many rows are locked.
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

// UnlockRows implements [coordination.RowLocks] for callers in the same process. See LockRows for
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

// LockRows implements [coordination.RowLocks]. A change of leader goes unnoticed: the locks are
// gone, and the next call gets them from the new leader. ErrLimit: too many rows are locked.
// ErrUnavailable, and ctx's error: the oracle was unreachable.
func (c *Client) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	if err := checkLockRows(ctx, holder, ttl, rows); err != nil {
		return 0, err
	}
	// In whole milliseconds, not fewer than requested.
	req := &tsopb.LockRowsRequest{Holder: holder, TtlMs: (ttl + time.Millisecond - 1).Milliseconds(), Rows: rows}
	resp, err := callLeader(ctx, c, 0, "locking rows", func(ctx context.Context, p *peer) (*tsopb.LockRowsResponse, error) {
		return p.rowLocks.LockRows(ctx, req)
	})
	if locked := int(resp.GetLocked()); locked > len(rows) {
		return 0, fmt.Errorf("tso: locking rows: %w: the server answered that %d of %d are locked", ErrUnavailable, locked, len(rows))
	}
	return int(resp.GetLocked()), err
}

// UnlockRows implements [coordination.RowLocks]. Without an answer the locks expire.
func (c *Client) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	if err := checkRowLocks(ctx, holder, rows); err != nil {
		return err
	}
	_, err := callLeader(ctx, c, 0, "unlocking rows", func(ctx context.Context, p *peer) (*tsopb.UnlockRowsResponse, error) {
		return p.rowLocks.UnlockRows(ctx, &tsopb.UnlockRowsRequest{Holder: holder, Rows: rows})
	})
	return err
}
