//go:build unix

package loader_test

import (
	"context"
	"path"
	"sync"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/stats"
)

// phase is what a part of a benchmark took.
type phase struct {
	spent               // of this process
	store time.Duration // of the processor, by the store
	tally
}

// tally is how many there were of each.
type tally [kinds]int64

// kind is something that traffic counts.
type kind int

const (
	requests     kind = iota
	conditionals      // CheckAndMutateRow: a row is read and changed
	mutations         // unconditional ones of rows
	changes           // of cells, by either
	sent              // bytes
	received          // bytes
	kinds
)

func (k kind) String() string {
	return [...]string{"requests", "conditional-mutations", "mutations", "changes", "bytes-sent", "bytes-received"}[k]
}

// report gives what a row took, and returns the rate.
func (p phase) report(b *testing.B, name string, rows int) (rate float64) {
	rate = float64(rows) / p.wall.Seconds()
	b.ReportMetric(rate, name+"-rows/s")
	b.ReportMetric(float64(p.cpu.Microseconds())/float64(rows), name+"-client-µs/row")
	b.ReportMetric(float64(p.store.Microseconds())/float64(rows), name+"-store-µs/row")
	for k, n := range p.tally {
		if n > 0 {
			b.ReportMetric(float64(n)/float64(rows), name+"-"+kind(k).String()+"/row")
		}
	}
	return rate
}

// meter measures phases, in parts that one after the other begin and end.
type meter struct {
	store   *storeProcess
	traffic *traffic
	began   phase
}

func (m *meter) now() phase {
	return phase{spent: now(), store: m.store.cpu(), tally: m.traffic.read()}
}

func (m *meter) begin() { m.began = m.now() }

// end adds the part to a phase, and begins the next one.
func (m *meter) end(p *phase) {
	at := m.now()
	p.wall, p.cpu, p.store = p.wall+at.wall-m.began.wall, p.cpu+at.cpu-m.began.cpu, p.store+at.store-m.began.store
	for k := range p.tally {
		p.tally[k] += at.tally[k] - m.began.tally[k]
	}
	m.began = at
}

// traffic counts what a client sends to the store.
type traffic struct {
	mu     sync.Mutex
	more   sync.Cond // stored has changed
	counts tally
	stored int    // rows, since awaitStored
	table  string // at a request for samples of which
	sample func() // is called
}

func newTraffic() *traffic {
	t := new(traffic)
	t.more.L = &t.mu
	return t
}

func (t *traffic) onSample(table string, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table, t.sample = table, f
}

func (t *traffic) read() tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// awaitStored waits until so many rows were stored in bulk since its last call.
func (t *traffic) awaitStored(rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.stored < rows {
		t.more.Wait()
	}
	t.stored = 0
}

// HandleRPC implements stats.Handler.
func (t *traffic) HandleRPC(_ context.Context, s stats.RPCStats) {
	t.mu.Lock()
	after := func() {}
	switch s := s.(type) {
	case *stats.InPayload:
		t.counts[received] += int64(s.WireLength)
		if m, ok := s.Payload.(*btpb.MutateRowsResponse); ok {
			t.stored += len(m.Entries)
			t.more.Broadcast()
		}
	case *stats.OutPayload:
		t.counts[requests]++
		t.counts[sent] += int64(s.WireLength)
		after = t.request(s.Payload)
	}
	t.mu.Unlock()
	after()
}

// request counts a request; the caller holds mu, and calls what it returns without.
func (t *traffic) request(message any) func() {
	switch m := message.(type) {
	case *btpb.CheckAndMutateRowRequest:
		t.counts[conditionals]++
		t.counts[changes] += int64(len(m.TrueMutations) + len(m.FalseMutations))
	case *btpb.MutateRowsRequest:
		t.counts[mutations] += int64(len(m.Entries))
		for _, e := range m.Entries {
			t.counts[changes] += int64(len(e.Mutations))
		}
	case *btpb.SampleRowKeysRequest:
		if t.sample != nil && path.Base(m.TableName) == t.table {
			return t.sample
		}
	}
	return func() {}
}

// TagRPC implements stats.Handler.
func (t *traffic) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (t *traffic) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (t *traffic) HandleConn(context.Context, stats.ConnStats) {}
