package locks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// A reader that meets a lock of its own client's need not ask the store what becomes of it: the
// commit is under way in this process. It waits until that is decided, and of a transaction that
// has committed it takes the lock for its record at once, as phase two is about to make it one. The
// alternative, which serves for strangers' locks, is to look at the primary again and again.

// ownTimeout is how long a reader waits in memory.
const ownTimeout = time.Second

// ownCommits are the commits of this client whose locks may be found.
type ownCommits struct {
	mu    sync.Mutex
	known map[tso.Timestamp]*ownCommit // by start timestamp

	waiting atomic.Int64 // readers
}

// ownCommit is one of them.
type ownCommit struct {
	decided  chan struct{}
	commitTS tso.Timestamp // once decided; 0: not committed, or not known to be
	rows     int           // whose locks phase two has yet to turn into records
}

func (o *ownCommits) Begin(startTS tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[tso.Timestamp]*ownCommit{}
	}
	o.known[startTS] = &ownCommit{decided: make(chan struct{})}
}

// StatusOf ends the waiting, the first time. CommitTS is 0 if the transaction will not commit, or
// nobody knows; otherwise its locks in so many more rows are known for what they are until RowDone
// was called for each.
func (o *ownCommits) Decide(startTS, commitTS tso.Timestamp, rows int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.known[startTS]
	if own == nil {
		return // it has been given up before
	}
	own.commitTS, own.rows = commitTS, rows
	close(own.decided)
	if commitTS == 0 || rows == 0 {
		delete(o.known, startTS)
	}
}

func (o *ownCommits) RowDone(startTS tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own := o.known[startTS]; own != nil && own.rows > 0 {
		if own.rows--; own.rows == 0 {
			delete(o.known, startTS)
		}
	}
}

// await waits until the commit of StartTS is decided, if this client is about to make it; isOwn is
// false if not, or not any more. Without a commit timestamp it did not commit, or takes long: then
// the store has to be asked, which may know more, as when only an answer is late.
func (o *ownCommits) await(ctx context.Context, startTS tso.Timestamp) (commitTS tso.Timestamp, isOwn bool, err error) {
	o.mu.Lock()
	own := o.known[startTS]
	o.mu.Unlock()
	if own == nil {
		return 0, false, nil
	}
	o.waiting.Add(1)
	defer o.waiting.Add(-1)
	tooLong := time.NewTimer(ownTimeout)
	defer tooLong.Stop()
	select {
	case <-own.decided:
		return own.commitTS, true, nil
	case <-tooLong.C:
		return 0, true, nil
	case <-ctx.Done():
		return 0, true, ctx.Err()
	}
}

// WaitingForOwn is how many readers wait for a commit of this client.
func (c *Resolver) WaitingForOwn() int64 { return c.Own.waiting.Load() }

// OwnCommits is how many commits of this client its readers know.
func (c *Resolver) OwnCommits() int {
	c.Own.mu.Lock()
	defer c.Own.mu.Unlock()
	return len(c.Own.known)
}
