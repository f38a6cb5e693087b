package reads

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/telemetry"
)

// Requests for the same table and columns that arrive while others are in flight travel together as
// one ReadRows (section 2.5 of the paper, without its artificial delay: when nothing is in flight a
// request goes out at once).
//
// A batch has one filter and many snapshots, so it asks for the newest batchWindow versions without
// an upper bound. A cell never holds two locks (I2), so the newest lock decides; a request that
// finds only records above its snapshot, or only records that change nothing, reads on alone
// (ViewDeeper).
//
// A row that no tablet server has at present must not hold up the others. A batch that has to be
// sent again is given up: whoever waits for it, or for a place behind it, reads alone, and so does
// everybody for a while after it, some at a time. A request that is merely slow keeps its readers
// and gives up its place after slotTimeout. That it is slow says nothing about its rows, and if the
// store is, more and smaller requests would make it slower still: a client that took them for a
// cure would never come back to batches.
const (
	batchInFlight = 2
	batchWindow   = 2
	slotTimeout   = time.Second
	loneMost      = 128 // reads that travel alone at once, not counting those that take longer than slotTimeout
)

type readBatcher struct {
	reader *Reader
	mu     sync.Mutex
	// queues by what is asked; an entry lives only while requests are in flight
	queues map[queryKind]*readQueue
	lone   chan struct{}
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
	rows  int  // that travelled together
	alone bool // the batch was given up
	err   error
}

func newReadBatcher(r *Reader) *readBatcher {
	return &readBatcher{reader: r, queues: map[queryKind]*readQueue{}, lone: make(chan struct{}, loneMost)}
}

// read asks q of one row. The context of the batch is not the caller's: a caller that gives up
// costs the others nothing.
func (b *readBatcher) read(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	if b.reader.policy.of(q.table).alone() {
		return b.alone(ctx, q, row)
	}
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
		return b.first(ctx, queue, q, row)
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
		b.reader.store.Trace.Current(ctx).Count("percolator.batch.rows", a.rows)
		switch {
		case a.alone:
			return b.alone(ctx, q.byName(), row)
		case a.err == nil && a.cut:
			return b.reader.readOne(ctx, q.byName(), row)
		}
		return a.rowAnswer, a.err
	case <-ctx.Done():
		return rowAnswer{}, model.WithContext(ctx, ctx.Err())
	}
}

// alone reads while batches of the table do not come back.
func (b *readBatcher) alone(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	select {
	case b.lone <- struct{}{}:
	case <-ctx.Done():
		return rowAnswer{}, model.WithContext(ctx, ctx.Err())
	}
	defer HoldSlot(slotTimeout, func() { <-b.lone })()
	return b.reader.readOne(ctx, q, row)
}

// first sends the only request there is on the caller's goroutine; whatever gathers meanwhile is
// sent afterwards, if it has not been in the other place. However long it takes, it keeps only the
// one.
func (b *readBatcher) first(ctx context.Context, queue *readQueue, q rowQuery, row string) (rowAnswer, error) {
	defer b.next(queue)
	return b.reader.readOne(ctx, q, row)
}

// next has whatever gathered behind a lone request sent.
func (b *readBatcher) next(queue *readQueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(queue.waiting) > 0 {
		go b.drain(queue)
		return
	}
	b.release(queue)
}

// drain sends batches until nobody waits, or until its place has been given to somebody else.
func (b *readBatcher) drain(queue *readQueue) {
	for batch := b.take(queue); batch != nil; batch = b.take(queue) {
		came, kept := b.carry(queue, batch)
		if !came {
			b.reader.policy.of(queue.kind.table).part()
			scatter(batch)
			for kept && batch != nil {
				batch = b.take(queue)
				scatter(batch)
			}
			return
		}
		if !kept {
			return
		}
	}
}

// carry sends a batch, which gives up its place when it takes long. came is false if it is given up
// itself.
func (b *readBatcher) carry(queue *readQueue, batch []*batchedRead) (came, kept bool) {
	var slot sync.Once
	slow := time.AfterFunc(slotTimeout, func() { slot.Do(func() { b.next(queue) }) })
	defer slow.Stop()
	came = b.send(batch)
	slot.Do(func() { kept = true })
	return came, kept
}

// scatter has everybody in a batch read alone.
func scatter(batch []*batchedRead) {
	for _, r := range batch {
		r.answer <- batchAnswer{alone: true}
	}
}

// take returns those who wait, as many as a request may name; nil: there is nobody, and the place
// in flight is given back.
func (b *readBatcher) take(queue *readQueue) []*batchedRead {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(queue.waiting) == 0 {
		b.release(queue)
		return nil
	}
	n := min(len(queue.waiting), ReadRowsLimit)
	batch := queue.waiting[:n:n]
	queue.waiting = queue.waiting[n:]
	return batch
}

// release gives a place in flight back; b.mu is held.
func (b *readBatcher) release(queue *readQueue) {
	if queue.inFlight--; queue.inFlight == 0 {
		delete(b.queues, queue.kind)
	}
}

// send reads a batch and answers everybody in it; false: it was given up, and nobody has an answer.
func (b *readBatcher) send(batch []*batchedRead) bool {
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
	ctx, cancel := context.WithTimeout(b.reader.store.Background, b.reader.store.Timing.RequestLifetime)
	defer cancel()
	var givenUp atomic.Bool
	giveUp := func() {
		givenUp.Store(true)
		cancel()
	}
	b.reader.store.Metrics.Batch(ctx, telemetry.OpReadRows, q.table, len(rows))
	answers, err := b.reader.readMany((&store.Attempts{Again: giveUp}).Watch(ctx), q, rows)
	if err != nil && (givenUp.Load() || b.reader.byNameAfter(b.reader.store.Background, q, err)) {
		return false
	}
	for _, r := range batch {
		a := batchAnswer{rows: len(rows), err: err}
		if err == nil {
			a.rowAnswer = answers[at[r.row]]
		}
		r.answer <- a
	}
	return true
}

// Waiting is how many reads wait for one in flight to end, so that they travel together.
func (r *Reader) Waiting() (n int) {
	r.batch.mu.Lock()
	defer r.batch.mu.Unlock()
	for _, q := range r.batch.queues {
		n += len(q.waiting)
	}
	return n
}
