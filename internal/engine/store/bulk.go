package store

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// One MutateRow for each row would be the simple way to write phase two. Sixty-four rows in one
// request cost a tenth of that, so all unconditional mutations of a client, whichever transaction
// they belong to, go through here: each tablet has a few requests in flight (TabletQueues), and
// what arrives meanwhile forms the next one. When nothing is in flight a mutation is sent at once,
// so batching never adds a delay.
//
// A row that no tablet server has at present must not hold up the others: a request that is sent
// again, or has been in flight for slotTimeout, gives up its slot. So there may be more requests
// than slots, at most one for each row in the queue. And no tablet may fill the queue: the writers
// of one that does not answer wait, and no others.
const (
	slotTimeout = time.Second
	bulkQueue   = 16384         // rows with a place: waiting or in flight
	tabletMost  = bulkQueue / 4 // of them, those of one tablet
)

// RequestRows is the most rows that one request names.
const RequestRows = 512

// bulkMost is what one request of the bulk writer carries. Bigtable takes 100,000
// mutations; many requests are to be in flight (outstandingMost).
var bulkMost = Load{Rows: RequestRows, Bytes: 4 << 20, Mutations: 10_000}

// RowMutation is one row's share of something that needs no condition: phase two, clean-up, erased
// notifications.
type RowMutation struct {
	Table, Row string
	Mut        *Mutation
	Deadline   time.Time   // not sent after it (I14)
	Done       func(error) // called once, from another goroutine
	epoch      *bulkEpoch
	load       Load        // set when it is queued
	tablet     *bulkTablet // in whose share of the queue it is
}

func (m RowMutation) row() (row string, load Load) { return m.Row, m.load }

// BulkWriter sends unconditional mutations in batches. It is safe for concurrent use.
type BulkWriter struct {
	ctx   context.Context
	store *Store
	Slots chan struct{} // one element for each row waiting or in flight

	postponed *semaphore.Weighted // rows that wait for a place in the background

	mu      sync.Mutex
	tables  map[string]*TabletQueues[RowMutation] // guarded by mu
	tablets map[tabletID]*bulkTablet              // those in use
	epoch   *bulkEpoch
	closed  bool
	senders sync.WaitGroup
}

// tabletID names a tablet by the key that follows it.
type tabletID struct{ table, end string }

// bulkTablet is a tablet's share of the queue.
type bulkTablet struct {
	id    tabletID
	rows  *semaphore.Weighted
	users int // rows that have a place or wait for one; guarded by the writer's mu
}

// bulkEpoch counts the mutations accepted between two flushes, so that a flush never waits for
// later ones.
type bulkEpoch struct {
	open   int
	sealed bool
	done   chan struct{}
	prev   *bulkEpoch
}

// NewBulkWriter sends until ctx ends.
func NewBulkWriter(ctx context.Context, s *Store) *BulkWriter {
	return &BulkWriter{ctx: ctx, store: s, Slots: make(chan struct{}, bulkQueue), postponed: semaphore.NewWeighted(postponedMost), tables: map[string]*TabletQueues[RowMutation]{},
		tablets: map[tabletID]*bulkTablet{}, epoch: &bulkEpoch{done: make(chan struct{})}}
}

// tabletOf is the tablet of a row, which has one user more.
func (b *BulkWriter) tabletOf(m RowMutation) *bulkTablet {
	id := tabletID{m.Table, b.store.Tablets.of(m.Table).end(m.Row)}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tablets[id]
	if t == nil {
		t = &bulkTablet{id: id, rows: semaphore.NewWeighted(tabletMost)}
		b.tablets[id] = t
	}
	t.users++
	return t
}

// drop takes a user away; the caller holds b.mu.
func (b *BulkWriter) drop(t *bulkTablet) {
	if t.users--; t.users == 0 {
		delete(b.tablets, t.id)
	}
}

// tryPlace takes a place in the queue if there is one.
func (b *BulkWriter) tryPlace(t *bulkTablet) bool {
	if !t.rows.TryAcquire(1) {
		return false
	}
	select {
	case b.Slots <- struct{}{}:
		return true
	default:
		t.rows.Release(1)
		return false
	}
}

// enqueue queues mutations that have their slots, and starts senders for them.
func (b *BulkWriter) enqueue(muts []RowMutation) {
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
			b.begin(b.tables[m.Table])
		}
	}
	b.mu.Unlock()
	if closed {
		for _, m := range muts {
			b.finish(m, model.ErrClosed)
		}
	}
}

// push appends to the queue of a table; the caller holds b.mu.
func (b *BulkWriter) push(m RowMutation) {
	if m.epoch == nil {
		m.epoch = b.epoch
		m.epoch.open++
	}
	m.load = m.Mut.load(m.Row)
	t := b.tables[m.Table]
	if t == nil {
		t = &TabletQueues[RowMutation]{Tablets: &b.store.Tablets, Table: m.Table, Most: bulkMost, Of: RowMutation.row}
		b.tables[m.Table] = t
	}
	t.Push(m)
}

// begin starts a sender for each slot that is free and wanted; the caller holds b.mu. After Close
// only senders call it: what waits in a queue without one needs an answer.
func (b *BulkWriter) begin(t *TabletQueues[RowMutation]) {
	for slot := t.Next(); slot != nil; slot = t.Next() {
		b.senders.Add(1)
		go b.drain(slot)
	}
}

type bulkSlot = Slot[RowMutation]

// drain sends what waits in a queue, a request at a time, until another sender has its slot.
func (b *BulkWriter) drain(slot *bulkSlot) {
	defer b.senders.Done()
	for batch := b.take(slot); batch != nil; batch = b.take(slot) {
		b.apply(slot, batch)
	}
}

// take returns the mutations of the next request. One that has left others behind shows that the
// table needs more requests at once than it has.
func (b *BulkWriter) take(slot *bulkSlot) []RowMutation {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := slot.Take()
	if batch != nil && slot.Full() {
		go b.learn(slot.queues)
	}
	b.begin(slot.queues)
	return batch
}

// leaveSlot lets another sender start: the request in this slot takes too long. It stays after
// Close, to answer those that wait.
func (b *BulkWriter) leaveSlot(slot *bulkSlot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !slot.Leave() {
		return
	}
	if slot.queues.Waiting() > 0 {
		go b.learn(slot.queues)
	}
	b.begin(slot.queues)
}

// learn finds out where a table is cut, and cuts what waits for it.
func (b *BulkWriter) learn(t *TabletQueues[RowMutation]) {
	t.Learn()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		t.Cut()
		b.begin(t)
	}
}

// apply sends one request and answers every mutation in it. The request must end with the earliest
// deadline in it; apply sends those that could have waited longer again.
func (b *BulkWriter) apply(slot *bulkSlot, batch []RowMutation) {
	for now := time.Now(); len(batch) > 0; now = time.Now() {
		live := batch[:0:0]
		for _, m := range batch {
			if m.Deadline.After(now) {
				live = append(live, m)
			} else {
				b.finish(m, context.DeadlineExceeded)
			}
		}
		if batch = live; len(batch) == 0 {
			return
		}
		batch = b.sendOnce(slot, batch)
	}
}

// sendOnce returns the mutations whose request ran into another one's deadline. While Google's
// client sends the rest of the request again, those that were applied have their answer and another
// sender has the slot.
func (b *BulkWriter) sendOnce(slot *bulkSlot, batch []RowMutation) (again []RowMutation) {
	rows, muts := make([]string, len(batch)), make([]*Mutation, len(batch))
	only := make(map[string]int, len(batch)) // position of a row; -1: there are several
	deadline := batch[0].Deadline
	for i, m := range batch {
		rows[i], muts[i] = m.Row, m.Mut
		if m.Deadline.Before(deadline) {
			deadline = m.Deadline
		}
		if _, twice := only[m.Row]; twice {
			only[m.Row] = -1
		} else {
			only[m.Row] = i
		}
	}
	answered := make([]bool, len(batch)) // only the sending goroutine touches it
	applied := func(row string) {
		if i, ok := only[row]; ok && i >= 0 && !answered[i] {
			answered[i] = true
			b.finish(batch[i], nil)
		}
	}
	ctx, cancel := context.WithDeadline(b.ctx, deadline)
	table, leave := slot.queues.Table, func() { b.leaveSlot(slot) }
	b.store.Metrics.Batch(ctx, telemetry.OpMutateRows, table, len(rows))
	stuck := time.AfterFunc(slotTimeout, leave)
	errs, err := b.store.MutateRows((&Attempts{Again: leave, applied: applied}).Watch(ctx), table, rows, muts)
	stuck.Stop()
	cancel()
	for i, m := range batch {
		switch {
		case answered[i]:
		case (err != nil || errs != nil && asksToWait(errs[i])) && b.ctx.Err() == nil && !time.Now().Before(deadline) && m.Deadline.After(deadline):
			again = append(again, m)
		case err == nil && errs != nil:
			b.finish(m, errs[i])
		default:
			b.finish(m, err)
		}
	}
	return again
}

func asksToWait(err error) bool {
	_, slow := retry.SlowDown(err)
	return slow
}

// finish answers a mutation that has a place.
func (b *BulkWriter) finish(m RowMutation, err error) {
	m.Done(err)
	b.givePlace(m.tablet)
	b.leave(m)
}

// leave ends what the writer knows of a mutation.
func (b *BulkWriter) leave(m RowMutation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(m.tablet)
	if m.epoch != nil {
		m.epoch.open--
		m.epoch.closeIfDone()
	}
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

// Flush waits for everything accepted before the call.
func (b *BulkWriter) Flush(ctx context.Context) error {
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
	// Everything before last is done, so no caller needs to walk further back.
	b.mu.Lock()
	last.prev = nil
	b.mu.Unlock()
	return nil
}

func (b *BulkWriter) before(e *bulkEpoch) *bulkEpoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.prev
}

// Do sends mutations, waits for all of them and returns the first error.
func (b *BulkWriter) Do(ctx context.Context, muts []RowMutation) error {
	errs := make(chan error, len(muts))
	for i := range muts {
		muts[i].Done = func(err error) { errs <- err }
	}
	b.place(ctx, muts)
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

// Close refuses further mutations and returns when no sender is left. The context must have ended.
func (b *BulkWriter) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.senders.Wait()
}
