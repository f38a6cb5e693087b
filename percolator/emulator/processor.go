package emulator

import (
	"context"
	"sync"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

// Processor is the processor of a cluster. It works on one request of the data API at a time, in
// the order in which they arrive, so that latency grows with the queue: of requests that arrive
// faster than they are served, each waits longer than the one before. A request whose caller has
// left takes its time all the same. Time is the clock's, in a bubble that of the bubble.
//
// The fields are set before Start. The methods may be called concurrently.
type Processor struct {
	Request time.Duration // that every request takes
	Row     time.Duration // and each row that a mutation names, or a read by its key
	Longest time.Duration // requests that would wait longer are [Overloaded], and take nothing; 0: none

	mu   sync.Mutex
	free time.Time // when it has done all that has arrived
}

// OnProcessor makes the emulator's requests wait for p. Pings and administration do not.
func OnProcessor(p *Processor) Option { return func(s *settings) { s.processor = p } }

// Occupy gives the processor other work for so long: what arrives from now on waits for that too.
func (p *Processor) Occupy(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueue(d)
}

// Backlog is how long a request that arrived now would wait.
func (p *Processor) Backlog() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(time.Until(p.free), 0)
}

// enqueue adds work, and is how long it takes until that is done. The caller holds p.mu.
func (p *Processor) enqueue(d time.Duration) time.Duration {
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(d)
	return p.free.Sub(now)
}

// serve waits for what a request costs; nil costs nothing.
func (p *Processor) serve(ctx context.Context, req any) error {
	if p == nil {
		return nil
	}
	rows := 0
	switch r := req.(type) {
	case *btpb.ReadRowsRequest:
		rows = len(r.GetRows().GetRowKeys())
	case *btpb.MutateRowsRequest:
		rows = len(r.Entries)
	case *btpb.SampleRowKeysRequest:
	case rowMutation:
		rows = 1
	default:
		return nil
	}
	p.mu.Lock()
	if p.Longest > 0 && time.Until(p.free) > p.Longest {
		p.mu.Unlock()
		return Overloaded(0)
	}
	wait := p.enqueue(p.Request + time.Duration(rows)*p.Row)
	p.mu.Unlock()
	return rest(ctx, wait)
}
