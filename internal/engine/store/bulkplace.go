package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// A mutation needs a place in the queue and in the share of its tablet. Who waits for the outcome
// (Do) waits for a place as well. Whose transaction has committed (Offer) waits for all its places
// together placeWait, and placeRow more for each row, which is what a healthy tablet takes. What is
// left then waits in the background, and what is too much for that is left to lock resolution.
const (
	placeWait     = time.Second
	placeRow      = 250 * time.Microsecond
	postponedMost = bulkQueue // rows in the background, of some 300 bytes each
)

// ErrNoPlace answers a mutation for which there was no place in time.
var ErrNoPlace = errors.New("too many rows wait for a tablet that does not answer")

// Offer queues mutations of one transaction. It is not safe for concurrent use.
type Offer struct {
	b    *BulkWriter
	ctx  context.Context
	left time.Duration // for waiting
}

// Offer begins one. Nothing waits for a place any more when ctx has ended.
func (b *BulkWriter) Offer(ctx context.Context) *Offer {
	return &Offer{b: b, ctx: ctx, left: placeWait}
}

// Add queues mutations; those of one table are sent together as far as they fit. Each gets its
// answer.
func (o *Offer) Add(muts ...RowMutation) {
	if o.left > 0 {
		o.left += time.Duration(len(muts)) * placeRow
	}
	var rest []RowMutation
	o.b.each(muts, o.wait, func(m RowMutation) { rest = append(rest, m) })
	o.b.postpone(rest)
}

func (o *Offer) wait(m RowMutation) bool {
	if o.left <= 0 {
		return false
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(o.ctx, o.left)
	defer cancel()
	if o.b.awaitPlace(ctx, m) != nil {
		o.left = 0 // nor is any other waited for
		return false
	}
	o.left -= time.Since(began)
	return true
}

// place queues mutations and waits for their places, at most until ctx ends or their deadlines.
func (b *BulkWriter) place(ctx context.Context, muts []RowMutation) {
	var err error
	b.each(muts, func(m RowMutation) bool { err = b.awaitPlace(ctx, m); return err == nil }, func(m RowMutation) {
		m.Done(err)
		b.leave(m)
	})
}

// each queues the mutations for which there is a place, or for which wait has got one, and calls
// without for the others.
func (b *BulkWriter) each(muts []RowMutation, wait func(RowMutation) bool, without func(RowMutation)) {
	ready := muts[:0:0]
	for _, m := range muts {
		if m.tablet == nil {
			m.tablet = b.tabletOf(m)
		}
		if !b.tryPlace(m.tablet) {
			b.enqueue(ready) // what waits for a place may be waiting for these
			ready = ready[:0:0]
			if !wait(m) {
				without(m)
				continue
			}
		}
		ready = append(ready, m)
	}
	b.enqueue(ready)
}

// postpone waits for places in the background, as far as there is room for that.
func (b *BulkWriter) postpone(muts []RowMutation) {
	n := int64(len(muts))
	if n == 0 {
		return
	}
	b.mu.Lock()
	room := !b.closed && b.postponed.TryAcquire(n)
	if room {
		for i := range muts {
			muts[i].epoch = b.epoch
			b.epoch.open++
		}
		b.senders.Add(1)
	}
	b.mu.Unlock()
	if !room {
		for _, m := range muts {
			m.Done(ErrNoPlace)
			b.leave(m)
		}
		return
	}
	go func() {
		defer b.senders.Done()
		defer b.postponed.Release(n)
		var waiting sync.WaitGroup
		for _, ofTablet := range byTablet(muts) {
			waiting.Go(func() { b.place(b.ctx, ofTablet) })
		}
		waiting.Wait()
	}()
}

// byTablet keeps those that wait for one tablet from holding up others.
func byTablet(muts []RowMutation) map[*bulkTablet][]RowMutation {
	of := map[*bulkTablet][]RowMutation{}
	for _, m := range muts {
		of[m.tablet] = append(of[m.tablet], m)
	}
	return of
}

// awaitPlace waits for a place in the tablet's share first: who waits for that takes none of the
// queue.
func (b *BulkWriter) awaitPlace(ctx context.Context, m RowMutation) error {
	ctx, cancel := context.WithDeadline(ctx, m.Deadline)
	defer cancel()
	stop := context.AfterFunc(b.ctx, cancel)
	defer stop()
	err := m.tablet.rows.Acquire(ctx, 1)
	if err == nil {
		select {
		case b.Slots <- struct{}{}:
			return nil
		case <-ctx.Done():
			m.tablet.rows.Release(1)
			err = ctx.Err()
		}
	}
	if b.ctx.Err() != nil {
		return model.ErrClosed
	}
	return err
}

func (b *BulkWriter) givePlace(t *bulkTablet) {
	<-b.Slots
	t.rows.Release(1)
}
