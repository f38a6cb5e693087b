package tso

import (
	"context"
	"errors"
	"sync"
	"time"
)

// storeWatch is the elector's store and notes what it answered last, and when. The election loop
// sends requests all the time, as a follower and as a leader, so its progress shows here too.
type storeWatch struct {
	Store
	clock clock

	mu       sync.Mutex
	seen     State         // the record that was read or written last
	active   time.Duration // when a request began or ended last, by the monotonic clock
	answered time.Duration // when the store answered last; negative: never
	failure  error         // of the last request; nil if it was answered
}

func newStoreWatch(store Store, c clock) *storeWatch {
	return &storeWatch{Store: store, clock: c, active: c.mono(), answered: -1}
}

func (w *storeWatch) Load(ctx context.Context) (State, error) {
	w.begin()
	st, err := w.Store.Load(ctx)
	w.end(ctx, err, st)
	return st, err
}

func (w *storeWatch) CompareAndSwap(ctx context.Context, old, next State) error {
	w.begin()
	err := w.Store.CompareAndSwap(ctx, old, next)
	w.end(ctx, err, next)
	return err
}

func (w *storeWatch) begin() {
	now := w.clock.mono()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = now
}

// end notes the outcome of a request; st is what the store holds if err is nil.
func (w *storeWatch) end(ctx context.Context, err error, st State) {
	now := w.clock.mono()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = now
	switch {
	case err == nil:
		w.seen, w.answered, w.failure = st, now, nil
	case errors.Is(err, ErrFenced): // an answer too, and the record is read next
		w.answered, w.failure = now, nil
	case errors.Is(ctx.Err(), context.Canceled): // the server ends
	default:
		w.failure = err
	}
}

// read returns what is known of the store, and how long ago it was active and answered.
func (w *storeWatch) read() (seen State, idle, silent time.Duration, failure error) {
	now := w.clock.mono()
	w.mu.Lock()
	defer w.mu.Unlock()
	silent = -1
	if w.answered >= 0 {
		silent = now - w.answered
	}
	return w.seen, now - w.active, silent, w.failure
}
