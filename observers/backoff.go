package observers

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Four things slow a worker down: the pause after a failure, the pause that an observer asks for,
// the limit of runs for cells that have failed, and the limit of runs of an observer that
// conflicts.

// backoff is an exponential pause with jitter. Unlike percolator/model's it holds no state: a
// waiting cell keeps only its count of failures.
type backoff struct{ initial, limit time.Duration }

// pause returns how long to wait after the n-th failure in a row, n ≥ 1: initial × 2^(n-1), at
// most limit, shortened at random by up to half so that cells that failed together separate.
func (b backoff) pause(n int) time.Duration {
	d := b.limit
	if shift := n - 1; b.initial <= b.limit>>shift { // shifted to the left, initial might overflow
		d = b.initial << shift
	}
	return d - rand.N(d/2+1)
}

// maxSnooze is the longest time by which an observer can postpone a change.
const maxSnooze = time.Hour

// snooze is the error of an observer that postpones a change.
type snooze struct{ pause time.Duration }

func (s snooze) Error() string { return fmt.Sprintf("put off for %v", s.pause) }

// Snooze returns an error with which a [Func] postpones a change, for instance because what it
// needs is not there yet. The worker writes nothing of the transaction and calls the observer again
// after d, which it limits to between 0 and one hour. That is not a failure: it does not count as
// an attempt (Change.Attempt stays) and never parks the cell. WaitIdle waits for it. The error may
// be wrapped. From a [BatchFunc] it postpones all changes of the call.
//
// The worker keeps the time in memory, and each worker postpones for itself: another worker whose
// scan meets the notification, or this one after a restart, calls the observer at once. A further
// change of the cell joins the postponed one.
func Snooze(d time.Duration) error { return snooze{max(0, min(d, maxSnooze))} }

// retries limits the runs in flight for cells that have failed before to half of
// Config.Concurrency. An observer that hangs for some rows holds a slot until its timeout, on every
// attempt; as few rows as there are slots would keep the worker from everything else. So healthy
// cells have at least half of the slots, apart from first attempts at the failing ones. Failures
// that the store is to blame for do not count: after an outage all cells have all slots.
//
// queue.mu guards it.
type retries struct {
	limit   int
	active  int
	blocked fifo[*entry] // cells that wait for a slot
}

func (r *retries) slots() int { return r.limit - r.active }

// unblockRetries readies failed cells for which there are slots. Like unblock, it is called
// whenever one of them may have left its slot: a cell that was let in may have found something else
// to do.
func (q *queue) unblockRetries() {
	q.admit(&q.retries.blocked, q.retries.slots(), time.Now())
}

// congestion limits how many runs of one observer a worker has in flight. Conflicting runs waste
// each other's work: when a thousand changed cells all add to one total, 32 runs at once need
// eighteen attempts for each commit, and a few at once need two. The limit halves about every seven
// conflicts and grows by one for as many commits as it is large. Like the window of a TCP
// connection, it stabilizes where conflicts become rare, and costs nothing where there are none.
//
// queue.mu guards it.
type congestion struct{ window, most float64 }

const shrink = 0.9

func newCongestion(most int) congestion { return congestion{float64(most), float64(most)} }

func (c *congestion) limit() int { return int(c.window) }

func (c *congestion) committed() { c.window = min(c.most, c.window+1/c.window) }

func (c *congestion) conflicted() { c.window = max(1, c.window*shrink) }
