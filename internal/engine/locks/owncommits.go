package locks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// A reader that meets a lock of its own client need not ask the store what becomes of it: this
// process is committing it. The reader waits for the outcome, and takes the lock of a committed
// transaction for its record at once, as phase two is about to turn it into one. For other clients'
// locks the reader has to look at the primary again and again.

// ownTimeout bounds how long a reader waits in memory.
const ownTimeout = time.Second

// OwnCommits are the commits of this client whose locks readers may meet.
type OwnCommits struct {
	mu    sync.Mutex
	known map[tso.Timestamp]*ownCommit // by start timestamp

	waiting atomic.Int64 // readers
}

// ownCommit is the commit of one transaction.
type ownCommit struct {
	decided  chan struct{}
	commitTS tso.Timestamp // valid once decided is closed; 0: not committed, or not known to be
	rows     int           // with locks that phase two has yet to turn into records
}

// Begin makes readers wait for the commit of startTS until Decide.
func (o *OwnCommits) Begin(startTS tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[tso.Timestamp]*ownCommit{}
	}
	o.known[startTS] = &ownCommit{decided: make(chan struct{})}
}

// Decide ends the waiting; only its first call counts. commitTS is 0 if the transaction will not
// commit, or its status is unknown. Otherwise readers know its locks for records until RowDone has
// been called for each of the rows.
func (o *OwnCommits) Decide(startTS, commitTS tso.Timestamp, rows int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.known[startTS]
	if own == nil {
		return // an earlier call gave it up
	}
	own.commitTS, own.rows = commitTS, rows
	close(own.decided)
	if commitTS == 0 || rows == 0 {
		delete(o.known, startTS)
	}
}

// RowDone says that phase two is done with a row of startTS.
func (o *OwnCommits) RowDone(startTS tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own := o.known[startTS]; own != nil && own.rows > 0 {
		if own.rows--; own.rows == 0 {
			delete(o.known, startTS)
		}
	}
}

// await waits for the outcome of startTS if this client is committing it, and returns when the
// caller has now read the lock: earlier if this has waited. Without a commit timestamp the
// transaction did not commit, or takes long: then the caller asks the store, which may know more,
// as when only an answer is late.
func (o *OwnCommits) await(ctx context.Context, startTS tso.Timestamp) (commitTS tso.Timestamp, seen Sight, err error) {
	o.mu.Lock()
	own := o.known[startTS]
	o.mu.Unlock()
	if own == nil {
		return 0, SeenJustNow, nil
	}
	o.waiting.Add(1)
	defer o.waiting.Add(-1)
	tooLong := time.NewTimer(ownTimeout)
	defer tooLong.Stop()
	select {
	case <-own.decided:
		return own.commitTS, SeenEarlier, nil
	case <-tooLong.C:
		return 0, SeenEarlier, nil
	case <-ctx.Done():
		return 0, SeenEarlier, ctx.Err()
	}
}

// WaitingForOwn is the number of readers that wait for a commit of this client.
func (r *Resolver) WaitingForOwn() int64 { return r.Own.waiting.Load() }

// OwnCommits is the number of commits of this client that its readers know.
func (r *Resolver) OwnCommits() int {
	r.Own.mu.Lock()
	defer r.Own.mu.Unlock()
	return len(r.Own.known)
}
