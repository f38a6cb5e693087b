package tso

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A timestamp's path through the client costs less than waking the goroutine that waits for it, so
// this file is about waiting. Each of these made a difference when it was measured:
//
//   - Callers gather in as many shards as there are processors. All callers of a batch in one shard
//     contend for its lock, when they arrive and when they wake up.
//   - A caller waits for one channel, not for two: a select on the answer and on the caller's
//     context takes half as long again. Callers watch their contexts only when an answer takes
//     longer than gracePeriod; they are woken once more and then wait for both.
//   - Joining is one atomic addition, and allocates nothing for a caller, only for a part of a
//     batch.
//
// Rejected, each after a measurement: callers that yield (runtime.Gosched) instead of parking,
// which all go through the scheduler's global queue; waking callers in a chain, or the last one
// first, which saved nothing.

// gracePeriod is how long an answer may take before all callers watch their contexts: for so long
// the end of one may go unnoticed.
const gracePeriod = 10 * time.Millisecond

// attentive callers, the first of each part, watch their contexts from the beginning: so few do not
// get in each other's way.
const attentive = 8

// part is the callers of one shard that share one request. Each has a position, and gets the
// timestamp at that position of the part's block, or those from there on.
type part struct {
	joined atomic.Int64 // timestamps that are wanted, far more than fit when no more are taken
	n      int          // timestamps; set when the part is taken

	// woken is closed when the part is answered, or late.
	woken chan struct{}
	state atomic.Int32

	// answered, of a late part, is closed when first and err are set.
	answered chan struct{}

	first Timestamp
	err   error
}

// States of a part.
const (
	waiting  int32 = iota
	answered       // first and err are set
	late           // callers watch their contexts
)

// wait returns nil when first and err are set, and ctx's error if ctx ends before.
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
	if p.state.Load() == answered {
		return nil
	}
	select {
	case <-p.answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer gives the callers of p their answer.
func (p *part) answer(first Timestamp, err error) {
	p.first, p.err = first, err
	if p.state.CompareAndSwap(waiting, answered) {
		close(p.woken)
		return
	}
	close(p.answered)
}

// delay lets the callers of p watch their contexts.
func (p *part) delay() {
	if p.state.Load() != waiting {
		return
	}
	p.answered = make(chan struct{})
	if p.state.CompareAndSwap(waiting, late) {
		close(p.woken)
	}
}

// shard is where the callers of one processor gather.
type shard struct {
	forming atomic.Pointer[part] // takes callers; nil until the first one arrives
	mu      sync.Mutex           // of changes of forming, and of full
	full    []*part              // take no more callers
	_       [24]byte
}

// batcher collects callers in batches. A batch takes callers until it is sent or full: the client
// asks for a timestamp after all callers that get one of that request have asked
// (docs/internals/PROTOCOL.md, I1).
type batcher struct {
	shards []shard
	here   sync.Pool // of *shard: the one of the processor that the caller runs on
	full   int       // timestamps in a part

	// ready, with room for one, tells the sender that a caller waits.
	ready chan struct{}

	// closed is why the batcher takes no more callers.
	closed atomic.Pointer[error]

	handed atomic.Uint32 // shards handed out by here

	mu   sync.Mutex
	sent []*part // in flight; nil between requests
	// overdue: the request in flight takes longer than gracePeriod, so parts that begin are late at
	// once. A timer for them would wake every client of an oracle that is away all the time.
	overdue atomic.Bool
	timer   *time.Timer // calls delay while a request is in flight
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

// mine returns the shard of the processor that the caller runs on.
func (q *batcher) mine() *shard {
	if len(q.shards) == 1 {
		return &q.shards[0]
	}
	s := q.here.Get().(*shard)
	q.here.Put(s)
	return s
}

// join adds the caller, who wants n timestamps in a row, to the batch that is forming.
func (q *batcher) join(n int) (p *part, position int, err error) {
	s := q.mine()
	for {
		p := s.forming.Load()
		if p != nil {
			if joined := p.joined.Add(int64(n)); joined <= int64(q.full) {
				return p, int(joined) - n, nil
			}
		}
		if p, err := q.begin(s, p, n); p != nil || err != nil {
			return p, 0, err
		}
	}
}

// begin begins a part with one caller after old, which takes no more: what is left of that is
// skipped. nil: another caller has started one.
func (q *batcher) begin(s *shard, old *part, n int) (*part, error) {
	s.mu.Lock()
	switch s.forming.Load() {
	case nil: // old was taken
	case old:
		s.full = append(s.full, old)
	default:
		s.mu.Unlock()
		return nil, nil
	}
	if err := q.closed.Load(); err != nil { // checked under the lock, see close
		s.forming.Store(nil)
		s.mu.Unlock()
		return nil, *err
	}
	p := &part{woken: make(chan struct{})}
	p.joined.Store(int64(n))
	if q.overdue.Load() { // checked under the lock, see delay
		p.delay()
	}
	s.forming.Store(p)
	s.mu.Unlock()
	wake(q.ready)
	return p, nil
}

// take removes the oldest part of each shard and returns the parts with the number of their
// timestamps, 0 if no caller waits. No one joins them any more. The caller has to answer them.
func (q *batcher) take() (parts []*part, n int) {
	for i := range q.shards {
		if p := q.shards[i].take(q.full); p != nil {
			parts = append(parts, p)
			n += p.n
		}
	}
	if n > 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.sent = parts
		q.timer.Reset(gracePeriod)
	}
	return parts, n
}

func (s *shard) take(full int) (p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.full) == 0 {
		if p = s.forming.Load(); p != nil {
			s.forming.Store(nil)
			p.n = int(min(p.joined.Swap(noMore), int64(full)))
		}
		return p
	}
	p = s.full[0]
	s.full[0] = nil
	s.full = s.full[1:]
	p.n = full
	return p
}

// noMore, instead of the number of timestamps, refuses further callers.
const noMore = 1 << 32

// answer gives the callers of the last take timestamps from first on, or err.
func (q *batcher) answer(first Timestamp, err error) {
	q.mu.Lock()
	parts := q.sent
	q.sent = nil
	q.overdue.Store(false)
	q.timer.Stop()
	q.mu.Unlock()
	for _, p := range parts {
		p.answer(first, err)
		first += Timestamp(p.n)
	}
}

// delay lets all callers watch their contexts while a request is in flight.
func (q *batcher) delay() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent == nil {
		return
	}
	q.overdue.Store(true) // before it takes the locks of the shards
	for _, p := range q.sent {
		p.delay()
	}
	for i := range q.shards {
		q.shards[i].delay()
	}
}

func (s *shard) delay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.full {
		p.delay()
	}
	if p := s.forming.Load(); p != nil {
		p.delay()
	}
}

// close refuses further callers with err and gives it to those that wait and were not taken.
func (q *batcher) close(err error) {
	q.closed.Store(&err) // before the locks: later callers see it, see begin
	for i := range q.shards {
		for p := q.shards[i].take(q.full); p != nil; p = q.shards[i].take(q.full) {
			p.answer(0, err)
		}
	}
}
