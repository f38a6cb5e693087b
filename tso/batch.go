package tso

import (
	"sync"
)

// batch is a number of callers that travel in one request. Each has a position, and
// gets the timestamp at that position of the block.
type batch struct {
	n    int           // callers; fixed once the batch is taken from the queue
	done chan struct{} // closed when first and err are set

	first Timestamp
	err   error
}

// batcher collects callers in batches. A batch takes callers until it is sent or
// full: a timestamp is asked for after everybody who gets one of that request has
// asked (docs/PROTOCOL.md, I1).
type batcher struct {
	// ready, with room for one, tells the sender that there is a batch.
	ready chan struct{}

	mu     sync.Mutex
	queue  []*batch // only the last one takes callers
	closed error    // why no more callers are taken
}

func newBatcher() *batcher {
	return &batcher{ready: make(chan struct{}, 1)}
}

// join adds the caller to the batch that is forming.
func (q *batcher) join() (b *batch, position int, err error) {
	q.mu.Lock()
	if q.closed != nil {
		q.mu.Unlock()
		return nil, 0, q.closed
	}
	if n := len(q.queue); n > 0 && q.queue[n-1].n < MaxBatch {
		b = q.queue[n-1]
		position = b.n
		b.n++
		q.mu.Unlock()
		return b, position, nil
	}
	b = &batch{n: 1, done: make(chan struct{})}
	q.queue = append(q.queue, b)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return b, 0, nil
}

// take removes the oldest batch, nil if there is none. Nobody joins it any more.
func (q *batcher) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	b := q.queue[0]
	q.queue[0] = nil
	if q.queue = q.queue[1:]; len(q.queue) == 0 {
		q.queue = nil
	}
	return b
}

// settle gives the callers of b their answer.
func (b *batch) settle(first Timestamp, err error) {
	b.first, b.err = first, err
	close(b.done)
}

// close refuses further callers with err and gives it to those who wait in batches
// that were not taken.
func (q *batcher) close(err error) {
	q.mu.Lock()
	queue := q.queue
	q.queue, q.closed = nil, err
	q.mu.Unlock()
	for _, b := range queue {
		b.settle(0, err)
	}
}
