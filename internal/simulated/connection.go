package simulated

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/store"
)

// Connection is a process's way to the store: what google.go and Google's client are to Bigtable.
// It repeats reads and unconditional mutations as these do.
type Connection struct {
	cluster *Cluster
	hash    hash
	counts  [countSlots]atomic.Uint32
	closed  atomic.Bool

	state  atomic.Int32 // a condition
	mu     sync.Mutex
	resume chan struct{} // closed when a suspension or the process ends; nil: neither
}

var _ store.Backend = (*Connection)(nil)

// condition is that of a process.
type condition int32

const (
	running condition = iota
	// Stopped is a process that does not run while the clocks of its machine do.
	Stopped
	// Asleep is a process on a machine that sleeps: its clocks stand still.
	Asleep
	killed
)

// Kill ends the process: it sends nothing more and gets no answer, so that its calls end with their
// contexts. What is under way may still arrive.
func (c *Connection) Kill() { c.become(killed) }

// Suspend lets requests and answers wait until Resume: how is Stopped or Asleep.
func (c *Connection) Suspend(how condition) { c.become(how) }

// Resume ends a suspension.
func (c *Connection) Resume() { c.become(running) }

func (c *Connection) become(next condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if condition(c.state.Load()) == killed {
		return
	}
	c.state.Store(int32(next))
	if next == running || next == killed {
		if c.resume != nil {
			close(c.resume)
			c.resume = nil
		}
	} else if c.resume == nil {
		c.resume = make(chan struct{})
	}
}

// awake waits until the process runs and returns what it was before; killed: it waits until ctx
// ends.
func (c *Connection) awake(ctx context.Context) (was condition) {
	for {
		now := condition(c.state.Load())
		switch now {
		case running:
			return was
		case killed:
			<-ctx.Done()
			return killed
		}
		was = now
		c.mu.Lock()
		resume := c.resume
		c.mu.Unlock()
		if resume != nil {
			<-resume
		}
	}
}

// operation is a kind of request.
type operation uint64

const (
	opReadRow operation = iota + 1
	opReadRows
	opCheckAndMutate
	opMutateRows
	opMutateEntry
	opSampleKeys
)

// countSlots bounds how many requests of a kind are told apart from others.
const countSlots = 1 << 12

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
	deadline time.Time // it is not applied later
}

// send is a request that is about to be sent. Nothing is sent without a deadline (I14).
func (c *Connection) send(ctx context.Context, op operation, name, row string) (request, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return request{}, refused("a request without a deadline")
	}
	if c.closed.Load() {
		return request{}, status.Error(codes.Canceled, "grpc: the client connection is closing")
	}
	if condition(c.state.Load()) != running {
		left := time.Until(deadline)
		if was := c.awake(ctx); was == Asleep {
			deadline = time.Now().Add(left)
		}
	}
	if !time.Now().Before(deadline) {
		return request{}, contextStatus(context.DeadlineExceeded)
	}
	t, err := c.cluster.table(name)
	if err != nil {
		return request{}, err
	}
	return request{conn: c, table: t, hash: c.identify(op, t, row), deadline: deadline}, nil
}

// contextStatus is what gRPC reports when a context has ended.
func contextStatus(err error) error { return status.FromContextError(err).Err() }

// wait lets virtual time pass.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		timer.Stop()
		return contextStatus(ctx.Err())
	}
}

// Close ends the connection. A second Close does nothing.
func (c *Connection) Close() error {
	c.closed.Store(true)
	return nil
}
