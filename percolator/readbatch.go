package percolator

import (
	"context"
	"sync"
)

// Requests for the same table and columns that arrive while others are in flight travel together as one ReadRows (section 2.5
// of the paper, without its artificial delay: when nothing is in flight a request goes out at once).
//
// A batch has one filter and many snapshots, so it asks for the newest batchWindow versions without an upper bound. A cell
// never holds two locks (I2), so the newest lock decides; a request that finds only records above its snapshot, or only
// records that change nothing, reads on alone (viewDeeper).
const (
	batchInFlight = 2
	batchWindow   = 2
)

type readBatcher struct {
	c  *Client
	mu sync.Mutex
	// queues by what is asked; an entry lives only while requests are in flight
	queues map[queryKind]*readQueue
}

type readQueue struct {
	kind     queryKind
	waiting  []*batchedRead
	inFlight int
}

type batchedRead struct {
	query  rowQuery
	row    string
	answer chan batchAnswer
}

type batchAnswer struct {
	rowAnswer
	err error
}

func newReadBatcher(c *Client) *readBatcher {
	return &readBatcher{c: c, queues: map[queryKind]*readQueue{}}
}

// read asks q of one row. The context of the batch is not the caller's: a caller that gives up costs the others nothing.
func (b *readBatcher) read(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	kind := q.kind()
	b.mu.Lock()
	queue := b.queues[kind]
	if queue == nil {
		queue = &readQueue{kind: kind}
		b.queues[kind] = queue
	}
	if queue.inFlight == 0 {
		queue.inFlight++
		b.mu.Unlock()
		defer b.next(queue)
		return b.c.readOne(ctx, q, row)
	}
	r := &batchedRead{q, row, make(chan batchAnswer, 1)}
	queue.waiting = append(queue.waiting, r)
	if queue.inFlight < batchInFlight {
		queue.inFlight++
		go b.drain(queue)
	}
	b.mu.Unlock()
	select {
	case a := <-r.answer:
		if a.cut && a.err == nil {
			return b.c.readOne(ctx, q.byName(), row)
		}
		return a.rowAnswer, a.err
	case <-ctx.Done():
		return rowAnswer{}, withContext(ctx, ctx.Err())
	}
}

// next follows the only request there was, sent on its caller's goroutine: whatever gathered meanwhile is sent.
func (b *readBatcher) next(queue *readQueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(queue.waiting) > 0 {
		go b.drain(queue)
		return
	}
	b.release(queue)
}

// drain sends batches until nobody waits.
func (b *readBatcher) drain(queue *readQueue) {
	for {
		b.mu.Lock()
		if len(queue.waiting) == 0 {
			b.release(queue)
			b.mu.Unlock()
			return
		}
		n := min(len(queue.waiting), readRowsLimit)
		batch := queue.waiting[:n:n]
		queue.waiting = queue.waiting[n:]
		b.mu.Unlock()
		b.send(batch)
	}
}

// release gives a place in flight back; b.mu is held.
func (b *readBatcher) release(queue *readQueue) {
	if queue.inFlight--; queue.inFlight == 0 {
		delete(b.queues, queue.kind)
	}
}

func (b *readBatcher) send(batch []*batchedRead) {
	q := batch[0].query
	rows := make([]string, 0, len(batch))
	at := make(map[string]int, len(batch)) // position in rows
	for _, r := range batch {
		if r.query.ts != q.ts {
			q.ts, q.window = 0, batchWindow
		}
		if _, again := at[r.row]; !again {
			at[r.row] = len(rows)
			rows = append(rows, r.row)
		}
	}
	ctx, cancel := context.WithTimeout(b.c.background, b.c.store.timing.RequestLifetime)
	defer cancel()
	answers, err := b.c.readMany(ctx, q, rows)
	for _, r := range batch {
		a := batchAnswer{err: err}
		if err == nil {
			a.rowAnswer = answers[at[r.row]]
		}
		r.answer <- a
	}
}
