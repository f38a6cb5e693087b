package tso

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The way of a timestamp through the client costs less than waking up the goroutine
// that waits for it, so the waiting is what this file is about. Three things made the
// difference, each measured:
//
//   - Callers gather in as many shards as there are processors. All of a batch in one
//     place fight for its lock, when they come and when they are woken.
//   - A caller waits for one channel, not for two: a select on the answer and on the
//     caller's context takes half as long again. The context is looked after only
//     when an answer takes longer than patience; the callers are woken once more and
//     then wait for both.
//   - Nothing is allocated for a caller, only for a part of a batch.
//
// Rejected: callers that yield (runtime.Gosched) instead of being parked, which all
// pass through the scheduler's global queue; a channel for each caller; callers woken
// in a chain, one by the other, which saved little.

// patience is how long an answer may take before all callers look after their contexts:
// for so long the end of one may go unnoticed.
const patience = 10 * time.Millisecond

// attentive callers, the first of each part, look after their contexts from the
// beginning: so few do not get into each other's way.
const attentive = 8

// part is the callers of one shard that travel in one request. Each has a position,
// and gets the timestamp at that position of the part's block.
type part struct {
	n int // callers; fixed once the part is taken

	// woken is closed when the part is settled, or when it has become late.
	woken chan struct{}
	state atomic.Int32

	// settled, of a late part, is closed when first and err are set.
	settled chan struct{}

	first Timestamp
	err   error
}

// States of a part.
const (
	waiting int32 = iota
	settled       // first and err are set
	late          // callers look after their contexts
)

// wait returns nil when first and err are set, and ctx's error if that ends before.
func (p *part) wait(ctx context.Context, position int) error {
	if position < attentive {
		select {
		case <-p.woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	} else {
		<-p.woken
	}
	if p.state.Load() == settled {
		return nil
	}
	select {
	case <-p.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle gives the callers of p their answer.
func (p *part) settle(first Timestamp, err error) {
	p.first, p.err = first, err
	if p.state.CompareAndSwap(waiting, settled) {
		close(p.woken)
		return
	}
	close(p.settled)
}

// delay lets the callers of p look after their contexts.
func (p *part) delay() {
	if p.state.Load() != waiting {
		return
	}
	p.settled = make(chan struct{})
	if p.state.CompareAndSwap(waiting, late) {
		close(p.woken)
	}
}

// shard is where the callers of one processor gather.
type shard struct {
	mu    sync.Mutex
	queue []*part // only the last one takes callers
	_     [32]byte
}

// batcher collects callers in batches. A batch takes callers until it is sent or
// full: a timestamp is asked for after everybody who gets one of that request has
// asked (docs/PROTOCOL.md, I1).
type batcher struct {
	shards []shard
	here   sync.Pool // of *shard: the one of the processor that the caller runs on
	full   int       // callers in a part

	// ready, with room for one, tells the sender that somebody waits.
	ready chan struct{}

	// closed is why no more callers are taken.
	closed atomic.Pointer[error]

	handed atomic.Uint32 // shards handed out by here

	mu    sync.Mutex
	sent  []*part     // on the way; nil between requests
	timer *time.Timer // calls delay while a request is on the way
}

func newBatcher() *batcher {
	processors := min(runtime.GOMAXPROCS(0), maxShards)
	q := &batcher{shards: make([]shard, processors), full: MaxBatch / processors, ready: make(chan struct{}, 1)}
	q.here.New = func() any { return &q.shards[int(q.handed.Add(1)-1)%len(q.shards)] }
	q.timer = time.AfterFunc(time.Hour, q.delay)
	q.timer.Stop()
	return q
}

const maxShards = 64

// join adds the caller to the batch that is forming.
func (q *batcher) join() (p *part, position int, err error) {
	s := q.here.Get().(*shard)
	s.mu.Lock()
	if n := len(s.queue); n > 0 && s.queue[n-1].n < q.full {
		p = s.queue[n-1]
		position = p.n
		p.n++
		s.mu.Unlock()
		q.here.Put(s)
		return p, position, nil
	}
	if err := q.closed.Load(); err != nil { // looked at with the lock, see close
		s.mu.Unlock()
		q.here.Put(s)
		return nil, 0, *err
	}
	p = &part{n: 1, woken: make(chan struct{})}
	s.queue = append(s.queue, p)
	s.mu.Unlock()
	q.here.Put(s)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return p, 0, nil
}

// take removes the oldest part of each shard and returns them with the number of their
// callers, 0 if nobody waits. Nobody joins them any more. The caller has to settle
// them.
func (q *batcher) take() (parts []*part, n int) {
	for i := range q.shards {
		if p := q.shards[i].take(); p != nil {
			parts = append(parts, p)
			n += p.n
		}
	}
	if n > 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.sent = parts
		q.timer.Reset(patience)
	}
	return parts, n
}

func (s *shard) take() *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	p := s.queue[0]
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	return p
}

// settle gives the callers that were taken last timestamps from first on, or err.
func (q *batcher) settle(first Timestamp, err error) {
	q.mu.Lock()
	parts := q.sent
	q.sent = nil
	q.timer.Stop()
	q.mu.Unlock()
	for _, p := range parts {
		p.settle(first, err)
		first += Timestamp(p.n)
	}
}

// delay lets all callers look after their contexts, for as long as a request is on the
// way.
func (q *batcher) delay() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent == nil {
		return
	}
	for _, p := range q.sent {
		p.delay()
	}
	for i := range q.shards {
		q.shards[i].delay()
	}
	q.timer.Reset(patience)
}

func (s *shard) delay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.queue {
		p.delay()
	}
}

// close refuses further callers with err and gives it to those who wait and were not
// taken.
func (q *batcher) close(err error) {
	q.closed.Store(&err) // before the locks: who comes later sees it, see join
	for i := range q.shards {
		for p := q.shards[i].take(); p != nil; p = q.shards[i].take() {
			p.settle(0, err)
		}
	}
}
