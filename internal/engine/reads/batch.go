package reads

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// Requests for the same table and columns that arrive while others are in flight are sent together
// as one ReadRows (section 2.5 of the paper, without its artificial delay: with nothing in flight a
// request goes out at once).
//
// A batch has one filter and many snapshots, so it asks for the newest batchWindow versions without
// an upper bound. A cell never holds two locks (I2), so the newest lock decides. A request that
// finds only records above its snapshot, or only records that change nothing, reads on alone
// (ViewDeeper).
//
// Reads of one tablet are sent apart from those of the others as soon as the client knows where the
// table is cut (store.TabletQueues), and each tablet has slots of its own.
//
// A row that no tablet server has at present must not hold up the others. So the batcher gives up a
// batch that needs a second attempt: every read in it, or waiting for its slot, goes alone, and so
// do all reads of the table for a while, a limited number at once. A request that is merely slow
// keeps its readers and gives up its slot after slotTimeout. Its slowness says nothing about its
// rows. If the store is slow, more and smaller requests only make it slower, and a client that
// scattered its batches then would never return to batches. But a slow batch of several tablets is
// asked for once more, cut at their bounds, since one of them may hold up the others.
const (
	batchWindow = 2
	slotTimeout = time.Second
	loneMost    = 128 // concurrent single reads, except those slower than slotTimeout
)

type readBatcher struct {
	reader *Reader
	lone   chan struct{} // an element for each read that has one of the loneMost slots

	mu     sync.Mutex               // guards queues, and what they hold
	queues map[queryKind]*readQueue // none is idle: a queue lives while reads wait or are in flight
}

// readQueue is the reads of one kind that wait, and their slots.
type readQueue struct {
	kind queryKind
	store.TabletQueues[*batchedRead]
}

type readSlot = store.Slot[*batchedRead]

// batchedRead is a read that waits for others to be sent with it.
type batchedRead struct {
	query  rowQuery
	row    string
	answer chan batchAnswer // of capacity 1; the first answer counts, as a read may be sent twice
}

// load is what a read adds to a request.
func (r *batchedRead) load() (row string, load store.Load) { return r.row, loadOf(r.row) }

// done hands out an answer, unless a read that was sent twice has one.
func (r *batchedRead) done(a batchAnswer) {
	select {
	case r.answer <- a:
	default:
	}
}

// batchAnswer is the answer to one read of a batch.
type batchAnswer struct {
	rowAnswer
	rows int   // that were sent together
	err  error // errGivenUp: there is no answer, and the read goes alone
}

// errGivenUp is the answer of a batch that was given up.
var errGivenUp = errors.New("the batch was given up")

// read asks q of one row. A batch does not run on a caller's context, so a caller that gives up
// costs the others nothing.
func (b *readBatcher) read(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	if b.reader.policy.of(q.table).alone() {
		return b.alone(ctx, q, row)
	}
	b.mu.Lock()
	queue := b.queue(q.kind())
	if slot, ok := queue.Claim(row); ok {
		b.mu.Unlock()
		return b.first(ctx, queue, slot, q, row)
	}
	r := &batchedRead{q, row, make(chan batchAnswer, 1)}
	queue.Push(r)
	b.begin(queue)
	b.mu.Unlock()
	select {
	case a := <-r.answer:
		b.reader.store.Trace.Current(ctx).Count("percolator.batch.rows", a.rows)
		switch {
		case errors.Is(a.err, errGivenUp):
			return b.alone(ctx, q.byName(), row)
		case a.err == nil && a.cut:
			return b.reader.readOne(ctx, q.byName(), row)
		}
		return a.rowAnswer, a.err
	case <-ctx.Done():
		return rowAnswer{}, retry.WithContext(ctx, ctx.Err())
	}
}

// queue returns the queue of a kind; the caller holds b.mu.
func (b *readBatcher) queue(kind queryKind) *readQueue {
	queue := b.queues[kind]
	if queue == nil {
		queue = &readQueue{kind, store.TabletQueues[*batchedRead]{Tablets: &b.reader.store.Tablets, Table: kind.table, Most: readMost, Of: (*batchedRead).load}}
		b.queues[kind] = queue
	}
	return queue
}

// begin starts a sender for each slot that is free and wanted, and forgets a queue without any; the
// caller holds b.mu.
func (b *readBatcher) begin(queue *readQueue) {
	for slot := queue.Next(); slot != nil; slot = queue.Next() {
		go b.drain(queue, slot)
	}
	if queue.Idle() && b.queues[queue.kind] == queue {
		delete(b.queues, queue.kind)
	}
}

// alone reads without a batch, in one of loneMost slots.
func (b *readBatcher) alone(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	select {
	case b.lone <- struct{}{}:
	case <-ctx.Done():
		return rowAnswer{}, retry.WithContext(ctx, ctx.Err())
	}
	defer HoldSlot(slotTimeout, func() { <-b.lone })()
	return b.reader.readOne(ctx, q, row)
}

// first sends the only request there is on the caller's goroutine, and afterwards starts a batch
// with what has gathered. However long it takes, it holds one slot.
func (b *readBatcher) first(ctx context.Context, queue *readQueue, slot readSlot, q rowQuery, row string) (rowAnswer, error) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		slot.Leave()
		b.begin(queue)
	}()
	return b.reader.readOne(ctx, q, row)
}

// drain sends batches until no read waits in the slot's queue, or the slot was given up.
func (b *readBatcher) drain(queue *readQueue, slot *readSlot) {
	for batch := b.take(queue, slot); batch != nil; batch = b.take(queue, slot) {
		if b.carry(queue, slot, batch) == answered {
			continue
		}
		b.reader.policy.of(queue.kind.table).readAlone()
		for ; batch != nil; batch = b.take(queue, slot) {
			scatter(batch)
		}
		return
	}
}

// take returns the reads of the next request. One that has left others behind shows that the table
// needs more requests at once than it has.
func (b *readBatcher) take(queue *readQueue, slot *readSlot) []*batchedRead {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := slot.Take()
	if batch != nil && slot.Full() {
		go b.learn(queue)
	}
	b.begin(queue)
	return batch
}

// fate is what became of a batch that was sent.
type fate int

const (
	answered fate = iota // each of its reads has an answer, if only the error of the request
	givenUp              // none has: it needed a second attempt, or whole rows were too large
)

// carry sends a batch, and gives up its slot when that takes long.
func (b *readBatcher) carry(queue *readQueue, slot *readSlot, batch []*batchedRead) fate {
	slow := time.AfterFunc(slotTimeout, func() { b.slow(queue, slot, batch) })
	defer slow.Stop()
	return b.send(batch)
}

// slow passes the slot of a slow batch on to the reads that have gathered. Where it holds up
// others, it finds out whose tablet is slow.
func (b *readBatcher) slow(queue *readQueue, slot *readSlot, batch []*batchedRead) {
	b.mu.Lock()
	if !slot.Leave() { // the answer has come
		b.mu.Unlock()
		return
	}
	holdsUp := len(batch) > 1 || queue.Waiting() > 0
	if !holdsUp {
		b.begin(queue)
	}
	b.mu.Unlock()
	if holdsUp {
		b.learn(queue)
		b.again(queue, batch)
	}
}

// learn finds out where a table is cut, and cuts what waits for it.
func (b *readBatcher) learn(queue *readQueue) {
	queue.Learn()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range b.queues {
		if of.kind.table == queue.kind.table {
			of.Cut()
			b.begin(of)
		}
	}
}

// again sends the reads of a slow batch once more if they are of several tablets, by tablet.
func (b *readBatcher) again(queue *readQueue, batch []*batchedRead) {
	if !queue.Mixed(batch) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	queue = b.queue(queue.kind)
	for _, r := range batch {
		queue.Push(r)
	}
	b.begin(queue)
}

// scatter makes every read of a batch go alone.
func scatter(batch []*batchedRead) {
	for _, r := range batch {
		r.done(batchAnswer{err: errGivenUp})
	}
}

// send reads a batch and answers every read in it, unless it is given up.
func (b *readBatcher) send(batch []*batchedRead) fate {
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
	var repeats atomic.Bool // it needs a second attempt
	giveUp := func() {
		repeats.Store(true)
		cancel()
	}
	b.reader.store.Metrics.Batch(ctx, telemetry.OpReadRows, q.table, len(rows))
	answers, err := b.reader.readMany((&store.Attempts{Again: giveUp}).Watch(ctx), q, rows)
	if err != nil && (repeats.Load() || b.reader.byNameAfter(b.reader.store.Background, q, err)) {
		return givenUp
	}
	for _, r := range batch {
		a := batchAnswer{rows: len(rows), err: err}
		if err == nil {
			a.rowAnswer = answers[at[r.row]]
		}
		r.done(a)
	}
	return answered
}

// Waiting counts the reads that wait for one in flight to end, to be sent together.
func (r *Reader) Waiting() (n int) {
	r.batch.mu.Lock()
	defer r.batch.mu.Unlock()
	for _, q := range r.batch.queues {
		n += q.Waiting()
	}
	return n
}

// HoldSlot gives back a slot once: when its holder calls leave, or after timeout. So a request for
// a row that has no tablet server does not keep others from theirs. leave reports whether the slot
// was still held.
func HoldSlot(timeout time.Duration, giveBack func()) (leave func() bool) {
	var once sync.Once
	slow := time.AfterFunc(timeout, func() { once.Do(giveBack) })
	return func() (held bool) {
		slow.Stop()
		once.Do(func() {
			held = true
			giveBack()
		})
		return held
	}
}
