package simulated

import (
	"context"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// operation is a kind of request.
type operation uint64

const (
	opReadRows operation = iota + 1
	opCheckAndMutate
	opMutateRows
	opMutateEntry
	opSampleKeys
)

// countSlots bounds how many requests of a kind are told apart from others.
const countSlots = 1 << 14

// identify is what decides the next request of a kind for a row.
func (c *Connection) identify(op operation, t *table, row string) hash {
	kind := hash(op).with(t.hash).with(xxhash.Sum64String(row))
	n := c.counts[kind%countSlots].Add(1)
	return c.hash.with(uint64(kind)).with(uint64(n))
}

// request is one attempt: what Google's client sends once.
type request struct {
	conn     *Connection
	table    *table
	hash     hash
	deadline time.Time     // it is not applied later
	slow     time.Duration // of the tablet
	copied   bool          // another one may have landed before
	belated  bool          // the machine slept until the context of the request had ended
}

// wait lets virtual time pass.
func (c *Cluster) wait(ctx context.Context, d time.Duration) error {
	timer, _ := c.timers.Get().(*time.Timer)
	if timer == nil {
		timer = time.NewTimer(d)
	} else {
		timer.Reset(d)
	}
	defer c.timers.Put(timer)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		timer.Stop()
		return contextStatus(ctx.Err())
	}
}

func (r *request) wait(ctx context.Context, d time.Duration) error {
	return r.conn.cluster.wait(ctx, d)
}

// send is a request that is about to be sent. Nothing is sent without a deadline (I14).
func (c *Connection) send(ctx context.Context, op operation, name, row string) (r request, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return r, refused("a request without a deadline")
	}
	r = request{conn: c, deadline: deadline}
	if Condition(c.state.Load()) != running {
		left := time.Until(deadline)
		switch c.awake(ctx) {
		case killed:
			return r, contextStatus(ctx.Err())
		case Asleep: // on the clock of the machine no time has passed
			r.deadline = time.Now().Add(left)
			r.belated = left > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)
		}
	}
	if err := ctx.Err(); err != nil && !r.belated {
		return r, contextStatus(err)
	}
	if c.closed.Load() {
		return r, status.Error(codes.Canceled, "grpc: the client connection is closing")
	}
	if r.table, err = c.cluster.table(name); err != nil {
		return r, err
	}
	r.hash = c.identify(op, r.table, row)
	r.slow = r.table.slowness(row)
	c.cluster.digest.Add(uint64(r.hash.with(uint64(time.Now().UnixNano()))))
	r.sent(op, row)
	return r, nil
}

// effect is what a request applies to a table.
type effect interface {
	// land applies it at once.
	land(r *request) error
	// frozen is a copy that the caller of the request cannot change any more.
	frozen() effect
}

// carry brings a mutation to the store, and the answer back.
func (r *request) carry(ctx context.Context, f fate, e effect) error {
	if f.later > 0 {
		r.landLater(f, e)
	}
	sent := time.Now()
	if err := r.wait(ctx, f.out); err != nil {
		if !f.lost {
			r.abandon(f.out-time.Since(sent), e)
		}
		return r.conn.receive(ctx, err)
	}
	var err error
	if !f.lost && r.arrives() {
		err = e.land(r)
	}
	return r.answer(ctx, f, err)
}

// answer brings back the answer of a request that has arrived.
func (r *request) answer(ctx context.Context, f fate, err error) error {
	switch {
	case f.silent:
		<-ctx.Done()
		return r.conn.receive(ctx, contextStatus(ctx.Err()))
	case f.failed != nil:
		err = f.failed
	}
	if late := r.wait(ctx, f.back); late != nil {
		err = late
	}
	return r.conn.receive(ctx, err)
}

// arrives reports whether a request that was under way reaches the store: of those of a process
// that was killed meanwhile some do.
func (r *request) arrives() bool {
	if time.Now().After(r.deadline) {
		return false
	}
	return Condition(r.conn.state.Load()) != killed || r.hash.with(killMark)&1 == 0
}

// landLater applies a mutation that comes late, or twice.
func (r *request) landLater(f fate, e effect) {
	kind := Duplicate
	if f.lost {
		kind = Late
	}
	r.landAfter(f.later, e, kind)
}

// abandon decides about a mutation whose caller leaves while it is under way.
func (r *request) abandon(left time.Duration, e effect) {
	if r.belated || r.conn.cluster.faults.decides(Abandoned, r.hash) {
		r.landAfter(left, e, Abandoned)
	}
}

// landAfter applies a copy of a mutation when its caller has left or had an answer. The store
// honours the deadline that the request carries (I14).
func (r *request) landAfter(d time.Duration, e effect, kind Fault) {
	at, kept := *r, e.frozen()
	at.copied = true
	time.AfterFunc(d, func() {
		if !time.Now().After(at.deadline) && kept.land(&at) == nil {
			at.conn.cluster.faults.happened(kind)
		}
	})
}
