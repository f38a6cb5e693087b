package loader

import (
	"sync"
)

// order turns transactions that end in any order into a position. The position passes an item only
// when all items before it are done.
type order struct {
	mu       sync.Mutex
	at       Position
	failed   int64              // items before at that were passed over, in all runs
	finished map[int64]finished // by their first items: those that wait for an earlier one
	moved    chan struct{}      // holds a token when at has changed
}

// finished is a batch that has been dealt with.
type finished struct {
	items, failed int64
	token         []byte
}

func newOrder(at Position, failed int64) *order {
	return &order{at: at, failed: failed, finished: map[int64]finished{}, moved: make(chan struct{}, 1)}
}

// finish records a batch and returns by how many items the position moves.
func (o *order) finish(first int64, f finished) (passed int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished[first] = f
	for {
		f, ok := o.finished[o.at.Items]
		if !ok {
			break
		}
		delete(o.finished, o.at.Items)
		o.at = Position{Items: o.at.Items + f.items, Token: f.token}
		o.failed += f.failed
		passed += f.items
	}
	if passed > 0 {
		select {
		case o.moved <- struct{}{}:
		default:
		}
	}
	return passed
}

// position returns how far the load has come, and how many items before that were passed over.
func (o *order) position() (at Position, failed int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at, o.failed
}
