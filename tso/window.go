package tso

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// allocator hands out timestamps of the window that the leader has reserved in the store. Its
// invariants, under mu:
//
//   - last < every timestamp handed out from now on: the order of the calls is the order of the
//     timestamps.
//   - last ≤ limit, and limit is at most the high-water mark that the store holds: a successor,
//     which starts above the mark, is above all that was served.
//   - Nothing is handed out when any of the clocks, read after the call arrived, shows that the
//     lease has ended. It does no harm if the process is stopped between the reading and the
//     answer: at the reading, within the call, no successor could be serving.
type allocator struct {
	clock  clock
	window Timestamp // the length of the window in ticks

	// wanted, with room for one, asks the leader's loop for more.
	wanted chan struct{}

	mu      sync.Mutex
	leading bool
	last    Timestamp // the greatest timestamp handed out, or skipped
	limit   Timestamp // the last timestamp of the window
	lease   lease
	doubts  int64         // calls of confirm so far
	demand  Timestamp     // what the waiting calls need the window to contain
	failure error         // why the last attempt to extend the window failed
	changed chan struct{} // closed when one of the above changes; nil if no one waits

	// While the clock is more than a window behind, timestamps advance from anchor, at half the
	// speed of the monotonic clock since anchorAt.
	behind   bool
	anchor   Timestamp
	anchorAt time.Duration
	served   int64 // timestamps handed out so far
}

func newAllocator(c clock, window time.Duration) *allocator {
	return &allocator{clock: c, window: ticksIn(window), wanted: make(chan struct{}, 1)}
}

// take hands out n consecutive timestamps and returns the first. When the window is used up, or the
// wall clock has left it or the lease behind, take waits for the attempt to extend them. Errors:
// errNotLeading, ErrUnavailable, ErrExhausted, and ctx's.
func (a *allocator) take(ctx context.Context, n int) (Timestamp, error) {
	for {
		first, changed, err := a.tryTake(Timestamp(n))
		if changed == nil {
			return first, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("tso: waiting for timestamps to be reserved: %w", ctx.Err())
		}
	}
}

// tryTake is take without the waiting: it returns a channel that is closed when it is worth
// retrying.
func (a *allocator) tryTake(n Timestamp) (first Timestamp, again <-chan struct{}, err error) {
	at := a.clock.moment()
	now := At(at.wall)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.leading:
		return 0, nil, errNotLeading
	case at.upSince(a.lease.from) >= a.lease.length:
		wake(a.wanted)
		return 0, nil, fmt.Errorf("tso: %w: its lease has ended and could not be renewed%s", ErrUnavailable, because(a.failure))
	}
	first = max(a.last+1, a.present(now, at.mono))
	last := first + n - 1
	if last <= a.limit && a.lease.left(at) > 0 {
		a.last = last
		a.served += int64(n)
		if a.limit-last < a.window/2 {
			wake(a.wanted)
		}
		return first, nil, nil
	}
	wake(a.wanted)
	switch {
	case last > MaxTimestamp:
		return 0, nil, fmt.Errorf("tso: %w: the last one was %d", ErrExhausted, a.last)
	case a.failure != nil:
		return 0, nil, fmt.Errorf("tso: %w: no timestamps beyond %d are reserved%s", ErrUnavailable, a.limit, because(a.failure))
	}
	a.demand = max(a.demand, last)
	return 0, a.watchLocked(), nil
}

// The server, which knows who leads, turns errNotLeading into a NotLeaderError.
var errNotLeading = errors.New("not leading")

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// present returns the time that timestamps follow: the clock's, unless the clock has fallen far
// behind what was handed out (see the package's documentation). After a change of leader the clock
// is usually up to a window behind, and timestamps wait for it.
func (a *allocator) present(now Timestamp, mono time.Duration) Timestamp {
	if a.last-now <= a.window {
		a.behind = false
		return now
	}
	if !a.behind {
		a.behind, a.anchor, a.anchorAt = true, a.last, mono
	}
	return a.anchor + ticksIn((mono-a.anchorAt)/2)
}

// watchLocked returns a channel that is closed at the next change.
func (a *allocator) watchLocked() <-chan struct{} {
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.changed
}

// watch returns a channel that is closed when take may return something else.
func (a *allocator) watch() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watchLocked()
}

func (a *allocator) notifyLocked() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// low reports whether the record should be written before the lease is due for renewal: the window
// is running out, the lease has already ended, or a caller doubts it.
func (a *allocator) low() bool {
	at := a.clock.moment()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.left(at) <= 0 || a.doubts > a.lease.doubts || a.demand > a.limit || a.limit-a.last < a.window/2
}

// confirm returns when the store has renewed the lease since the call: then no other server led when
// the call came, whatever the clocks show. Calls that come while a write is in flight share the next
// one. Errors: as take.
func (a *allocator) confirm(ctx context.Context) error {
	a.mu.Lock()
	a.doubts++
	mine := a.doubts
	a.mu.Unlock()
	for {
		changed, err := a.tryConfirm(mine)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("tso: waiting for the lease to be confirmed: %w", ctx.Err())
		}
	}
}

// tryConfirm is confirm without the waiting, as tryTake.
func (a *allocator) tryConfirm(doubt int64) (again <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.leading:
		return nil, errNotLeading
	case a.lease.doubts >= doubt:
		return nil, nil
	}
	wake(a.wanted)
	if a.failure != nil {
		return nil, fmt.Errorf("tso: %w: its lease could not be confirmed%s", ErrUnavailable, because(a.failure))
	}
	return a.watchLocked(), nil
}

// doubted returns how many calls of confirm have come.
func (a *allocator) doubted() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.doubts
}

// target returns how far the window should reach now.
func (a *allocator) target() Timestamp {
	now, mono := a.clock.now(), a.clock.mono()
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(a.last, a.demand, a.present(now, mono))+a.window, MaxTimestamp)
}

// lead begins to hand out timestamps above floor.
func (a *allocator) lead(floor, limit Timestamp, l lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leading, a.behind, a.demand = true, false, 0
	a.last, a.limit, a.lease = max(a.last, floor), limit, l
	a.failure = nil
	a.notifyLocked()
}

// extend moves the end of the window, which the store now holds, and replaces the lease.
func (a *allocator) extend(limit Timestamp, l lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit, a.lease, a.failure = limit, l, nil
	if a.demand <= a.limit {
		a.demand = 0
	}
	a.notifyLocked()
}

// fail tells callers that wait that the store could not be written. The window is served to its
// end.
func (a *allocator) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = err
	a.notifyLocked()
}

// revoke stops handing out timestamps: after it has returned, none is handed out.
func (a *allocator) revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leading, a.failure = false, nil
	a.notifyLocked()
}

// isBehind reports whether the clock has fallen behind by more than a window.
func (a *allocator) isBehind() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leading && a.behind
}

// allocation is what an allocator says about itself.
type allocation struct {
	served  int64 // timestamps handed out so far
	holds   bool  // the lease
	serving bool  // a call would get a timestamp now, or at least wait for one

	leaseLeft  time.Duration // how long timestamps can be handed out without another write
	windowLeft time.Duration // how far the end of the window is from what is handed out next
}

func (a *allocator) report() allocation {
	at := a.clock.moment()
	now := At(at.wall)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := allocation{served: a.served}
	if left := a.lease.left(at); a.leading && left > 0 {
		r.holds, r.serving = true, a.failure == nil || max(a.last+1, now) <= a.limit
		r.leaseLeft, r.windowLeft = left, max(a.limit.Sub(max(a.last, now)), 0)
	}
	return r
}
