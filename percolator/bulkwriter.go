package percolator

import (
	"context"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
)

// The simple way to write phase two is one MutateRow for each row. Sixty-four rows in one request cost a tenth of that,
// so all unconditional mutations of a client, whichever transaction they belong to, go through here: for each table
// at most bulkInFlight requests are under way, and what arrives meanwhile forms the next one. When nothing is under way a
// mutation is sent at once, so batching never adds a delay.
//
// A row that no tablet server has at present must not hold up the others: a request that has to be sent again, or has been under way for
// bulkPatience, gives up its place. So there may be more of them than bulkInFlight, at most one for each row in the queue.
const (
	bulkInFlight = 2
	bulkPatience = time.Second
	bulkRows     = 512
	bulkQueue    = 16384 // rows waiting or under way; a committer that finds it full waits
)

// rowMutation is one row's share of something that needs no condition: phase two, clean-up, erased notifications.
type rowMutation struct {
	table, row string
	mut        *bigtable.Mutation
	deadline   time.Time   // not sent after it (I14)
	done       func(error) // called once, from another goroutine
	epoch      *bulkEpoch
}

type bulkWriter struct {
	ctx   context.Context
	store *store
	slots chan struct{}

	mu      sync.Mutex
	tables  map[string]*bulkTable
	epoch   *bulkEpoch
	closed  bool
	senders sync.WaitGroup
}

type bulkTable struct {
	queue    []rowMutation
	inFlight int // senders
	starting int // those of them that have not yet looked at the queue: each will take a request's worth
}

// bulkEpoch counts the mutations accepted between two flushes, so that a flush never waits for later ones.
type bulkEpoch struct {
	open   int
	sealed bool
	done   chan struct{}
	prev   *bulkEpoch
}

func newBulkWriter(ctx context.Context, s *store) *bulkWriter {
	return &bulkWriter{ctx: ctx, store: s, slots: make(chan struct{}, bulkQueue), tables: map[string]*bulkTable{},
		epoch: &bulkEpoch{done: make(chan struct{})}}
}

// add queues mutations; those of one table travel in one request as far as there is room in it. It waits while the queue is full, at
// most until ctx ends or a mutation's deadline.
func (b *bulkWriter) add(ctx context.Context, muts ...rowMutation) {
	ready := muts[:0:0]
	for _, m := range muts {
		select {
		case b.slots <- struct{}{}:
		default:
			b.enqueue(ready) // what waits for a slot may be waiting for these
			ready = ready[:0:0]
			if err := b.waitForSlot(ctx, m.deadline); err != nil {
				m.done(err)
				continue
			}
		}
		ready = append(ready, m)
	}
	b.enqueue(ready)
}

// enqueue queues mutations that have their slots, and sees that somebody sends them.
func (b *bulkWriter) enqueue(muts []rowMutation) {
	if len(muts) == 0 {
		return
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		for _, m := range muts {
			b.push(m)
		}
		for _, m := range muts {
			b.start(m.table)
		}
	}
	b.mu.Unlock()
	if closed {
		for _, m := range muts {
			<-b.slots
			m.done(ErrClosed)
		}
	}
}

// push appends to the queue of a table; b.mu is held.
func (b *bulkWriter) push(m rowMutation) {
	m.epoch = b.epoch
	m.epoch.open++
	t := b.tables[m.table]
	if t == nil {
		t = new(bulkTable)
		b.tables[m.table] = t
	}
	t.queue = append(t.queue, m)
}

// start adds a sender for a table that has fewer than it may have, unless those it has will take everything; b.mu is held.
func (b *bulkWriter) start(table string) {
	t := b.tables[table]
	if t.inFlight < bulkInFlight && len(t.queue) > t.starting*bulkRows {
		t.inFlight++
		t.starting++
		b.senders.Add(1)
		go b.drain(b.newPlace(table, t))
	}
}

func (b *bulkWriter) waitForSlot(ctx context.Context, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.ctx.Done():
		return ErrClosed
	}
}

// drain sends the queue of a table, a request at a time, until its place has been given to somebody else.
func (b *bulkWriter) drain(place *bulkPlace) {
	defer b.senders.Done()
	t := place.t
	for first := true; ; first = false {
		b.mu.Lock()
		if first {
			t.starting--
		}
		if place.left {
			b.mu.Unlock()
			return
		}
		if len(t.queue) == 0 {
			place.left = true // the timer of a request that is over may still fire
			t.inFlight--
			b.mu.Unlock()
			return
		}
		n := min(len(t.queue), bulkRows)
		batch := t.queue[:n:n]
		t.queue = t.queue[n:]
		b.mu.Unlock()
		b.apply(place, batch)
	}
}

// bulkPlace is one of the bulkInFlight.
type bulkPlace struct {
	b     *bulkWriter
	table string
	t     *bulkTable
	left  bool // b.mu
}

func (b *bulkWriter) newPlace(table string, t *bulkTable) *bulkPlace {
	return &bulkPlace{b: b, table: table, t: t}
}

// leave lets somebody else send: the request that has this place does not come back.
func (p *bulkPlace) leave() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if p.left || p.b.closed { // after Close nobody begins to send, and somebody has to answer those who wait
		return
	}
	p.left = true
	p.t.inFlight--
	if len(p.t.queue) > 0 {
		p.b.start(p.table)
	}
}

// apply sends one request and answers everybody in it. The request must end with the earliest deadline in it; those that
// could have waited longer are then sent again.
func (b *bulkWriter) apply(place *bulkPlace, batch []rowMutation) {
	for now := time.Now(); len(batch) > 0; now = time.Now() {
		live := batch[:0:0]
		for _, m := range batch {
			if m.deadline.After(now) {
				live = append(live, m)
			} else {
				b.finish(m, context.DeadlineExceeded)
			}
		}
		if batch = live; len(batch) == 0 {
			return
		}
		batch = b.sendOnce(place, batch)
	}
}

// sendOnce returns those whose request ran into somebody else's deadline. While the rest of the request is sent again, those that were applied
// have their answer and others have its place.
func (b *bulkWriter) sendOnce(place *bulkPlace, batch []rowMutation) (again []rowMutation) {
	rows, muts := make([]string, len(batch)), make([]*bigtable.Mutation, len(batch))
	only := make(map[string]int, len(batch)) // position of a row; -1: there are several
	deadline := batch[0].deadline
	for i, m := range batch {
		rows[i], muts[i] = m.row, m.mut
		if m.deadline.Before(deadline) {
			deadline = m.deadline
		}
		if _, twice := only[m.row]; twice {
			only[m.row] = -1
		} else {
			only[m.row] = i
		}
	}
	answered := make([]bool, len(batch)) // by the goroutine that sends, one after the other
	applied := func(row string) {
		if i, ok := only[row]; ok && i >= 0 && !answered[i] {
			answered[i] = true
			b.finish(batch[i], nil)
		}
	}
	ctx, cancel := context.WithDeadline(b.ctx, deadline)
	b.store.metrics.batch(ctx, opMutateRows, place.table, len(rows))
	stuck := time.AfterFunc(bulkPatience, place.leave)
	errs, err := b.store.mutateRows((&sendings{again: place.leave, applied: applied}).watch(ctx), place.table, rows, muts)
	stuck.Stop()
	cancel()
	for i, m := range batch {
		switch {
		case answered[i]:
		case err != nil && b.ctx.Err() == nil && !time.Now().Before(deadline) && m.deadline.After(deadline):
			again = append(again, m)
		case err == nil && errs != nil:
			b.finish(m, errs[i])
		default:
			b.finish(m, err)
		}
	}
	return again
}

func (b *bulkWriter) finish(m rowMutation, err error) {
	m.done(err)
	<-b.slots
	b.mu.Lock()
	defer b.mu.Unlock()
	m.epoch.open--
	m.epoch.closeIfDone()
}

func (e *bulkEpoch) closeIfDone() {
	if e.sealed && e.open == 0 {
		select {
		case <-e.done:
		default:
			close(e.done)
		}
	}
}

// flush waits for everything accepted before the call.
func (b *bulkWriter) flush(ctx context.Context) error {
	b.mu.Lock()
	last := b.epoch
	last.sealed = true
	last.closeIfDone()
	b.epoch = &bulkEpoch{done: make(chan struct{}), prev: last}
	b.mu.Unlock()
	for e := last; e != nil; e = b.before(e) {
		select {
		case <-e.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// Everything before last is done, so nobody needs to walk further back.
	b.mu.Lock()
	last.prev = nil
	b.mu.Unlock()
	return nil
}

func (b *bulkWriter) before(e *bulkEpoch) *bulkEpoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.prev
}

// do sends mutations and waits for all of them; the first error is returned.
func (b *bulkWriter) do(ctx context.Context, muts []rowMutation) error {
	errs := make(chan error, len(muts))
	for i := range muts {
		muts[i].done = func(err error) { errs <- err }
	}
	b.add(ctx, muts...)
	var first error
	for range muts {
		select {
		case err := <-errs:
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return first
}

// close refuses further mutations and returns when no sender is left. The context has ended.
func (b *bulkWriter) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.senders.Wait()
}
