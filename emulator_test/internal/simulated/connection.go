package simulated

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// Connection is a process's way to the store: what google.go and Google's client are to Bigtable.
// It repeats reads and unconditional mutations as these do.
type Connection struct {
	process string
	cluster *Cluster
	hash    hash
	counts  [countSlots]atomic.Uint32
	closed  atomic.Bool

	lacks atomic.Pointer[string] // a table that it cannot reach; nil: none

	state  atomic.Int32 // a Condition
	mu     sync.Mutex
	resume chan struct{} // closed when a suspension or the process ends; nil: neither
}

var _ store.Backend = (*Connection)(nil)

// Condition is that of a process.
type Condition int32

const (
	running Condition = iota
	// Stopped is a process that does not run while the clocks of its machine do.
	Stopped
	// Asleep is a process on a machine that sleeps: its clocks stand still.
	Asleep
	killed
)

// Kill ends the process: it sends nothing more and gets no answer, so that its calls end with their
// contexts. What is under way may still arrive.
func (c *Connection) Kill() { c.become(killed) }

// Suspend lets requests and answers wait until Resume; how is Stopped or Asleep. What a process
// would have sent with a context that ends meanwhile is sent if the machine slept, whose clocks
// know nothing of it, and not if only the process was stopped.
func (c *Connection) Suspend(how Condition) { c.become(how) }

// Resume ends a suspension.
func (c *Connection) Resume() { c.become(running) }

// CutOff has requests of the process for a table fail until the function that it returns is called.
func (c *Connection) CutOff(table string) (join func()) {
	c.lacks.Store(&table)
	return func() { c.lacks.Store(nil) }
}

func (c *Connection) become(next Condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if Condition(c.state.Load()) == killed {
		return
	}
	c.state.Store(int32(next))
	switch {
	case next == Stopped || next == Asleep:
		if c.resume == nil {
			c.resume = make(chan struct{})
		}
	case c.resume != nil:
		close(c.resume)
		c.resume = nil
	}
}

// awake waits until the process runs and returns what it was before; killed: it waits until ctx
// ends.
func (c *Connection) awake(ctx context.Context) (was Condition) {
	for {
		switch now := Condition(c.state.Load()); now {
		case running:
			return was
		case killed:
			<-ctx.Done()
			return killed
		default:
			was = now
		}
		c.mu.Lock()
		resume := c.resume
		c.mu.Unlock()
		if resume != nil {
			<-resume
		}
	}
}

// receive hands an answer to the process as soon as that runs.
func (c *Connection) receive(ctx context.Context, err error) error {
	if Condition(c.state.Load()) == running {
		return err
	}
	if was := c.awake(ctx); was == killed || was == Stopped && ctx.Err() != nil {
		return contextStatus(ctx.Err())
	}
	return err
}

// contextStatus is what gRPC reports when a context has ended.
func contextStatus(err error) error { return status.FromContextError(err).Err() }

// Close ends the connection. A second Close does nothing.
func (c *Connection) Close() error {
	c.closed.Store(true)
	return nil
}
