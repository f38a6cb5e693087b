package observers

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Scanners keep out of each other's way by advisory locks on the rows that they work on (the lightweight lock service of section
// 2.4 of the paper). They only save work; correctness rests on the transactions. A row is locked from when a scanner has read it
// until its cells are queued and its stranded locks are settled. From there on the queue sees to it that this worker does
// not work on a cell twice.
//
// There are two layers: rowLocks within the worker, and remoteLocks, which the oracle keeps for all workers. A page is
// locked remotely by one request, and unlocked by another; a page without dirty rows costs none.

// rowLocks are the locks of this worker's scanners.
type rowLocks struct {
	mu   sync.Mutex
	held map[rowKey]struct{}
}

type rowKey struct{ table, row string }

func newRowLocks() *rowLocks { return &rowLocks{held: map[rowKey]struct{}{}} }

// tryLock returns false if another scanner holds the row.
func (l *rowLocks) tryLock(table, row string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := rowKey{table, row}
	if _, held := l.held[k]; held {
		return false
	}
	l.held[k] = struct{}{}
	return true
}

func (l *rowLocks) unlock(table, row string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, rowKey{table, row})
}

// remoteLocks are the locks of one scanner that other workers see.
type remoteLocks struct {
	service tso.RowLocks // nil: none
	holder  string

	// resting is until when a service that failed is left alone, doubtful that rows may be
	// locked by a call whose answer was lost. Both are the scanner's.
	resting  time.Time
	doubtful bool
}

const (
	remoteLockTTL     = 10 * time.Second       // of a worker that dies; others keep off its rows so long
	remoteLockTimeout = 250 * time.Millisecond // for one request; the scanner goes on without
	remoteLockRest    = 5 * time.Second        // after a failure
)

func newRemoteLocks(service tso.RowLocks) *remoteLocks {
	return &remoteLocks{service: service, holder: uuid.NewString()}
}

// lock locks rows in their order and returns how many it got: all of them when the service cannot be asked.
func (l *remoteLocks) lock(ctx context.Context, rows []percolator.Pending) int {
	if l.service == nil || len(rows) == 0 || time.Now().Before(l.resting) {
		return len(rows)
	}
	ctx, cancel := context.WithTimeout(ctx, remoteLockTimeout)
	defer cancel()
	n, err := l.service.LockRows(ctx, l.holder, remoteLockTTL, hashes(rows))
	if err != nil {
		l.resting, l.doubtful = time.Now().Add(remoteLockRest), true
		return len(rows)
	}
	return max(0, min(n, len(rows)))
}

// unlock unlocks what lock has locked; what it cannot unlock expires.
func (l *remoteLocks) unlock(ctx context.Context, rows []percolator.Pending) {
	if l.service == nil || len(rows) == 0 || time.Now().Before(l.resting) && !l.doubtful {
		return
	}
	l.doubtful = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remoteLockTimeout)
	defer cancel()
	if err := l.service.UnlockRows(ctx, l.holder, hashes(rows)); err != nil {
		l.resting = time.Now().Add(remoteLockRest)
	}
}

// hashes names rows to the service: no key leaves its store.
func hashes(rows []percolator.Pending) []uint64 {
	out := make([]uint64, len(rows))
	for i, r := range rows {
		h := fnv.New64a()
		_, _ = h.Write([]byte(r.Table))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(r.Row))
		out[i] = h.Sum64()
	}
	return out
}
