package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gopercolator/percolator/tso"
)

// emptyMethod is the call with nothing in it that timestamps are compared with.
const emptyMethod = "/percolator.bench.Empty/Call"

func emptyService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "percolator.bench.Empty",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Call",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return new(emptypb.Empty), decode(new(emptypb.Empty))
			},
		}},
	}
}

// countingStore counts the writes of a store.
type countingStore struct {
	tso.Store
	writes atomic.Int64
}

// CompareAndSwap implements tso.Store.
func (s *countingStore) CompareAndSwap(ctx context.Context, old, next tso.State) error {
	s.writes.Add(1)
	return s.Store.CompareAndSwap(ctx, old, next)
}

// serverCounts is what a server says of itself.
type serverCounts struct {
	Heap   int64 `json:"heap"`
	Served int64 `json:"served"`
	Writes int64 `json:"writes"`
}

// oracleServer is the process with the oracle's server: it says where it listens, and its counts
// whenever it is asked.
func oracleServer(ctx context.Context, _ struct{}, l *lines) (err error) {
	store := &countingStore{Store: tso.NewMemoryStore()}
	server, err := tso.NewServer(store, tso.ServerConfig{})
	if err != nil {
		return err
	}
	e := new(environment)
	defer func() { err = errors.Join(err, e.close()) }()
	if e.at.Oracle, err = e.serve(ctx, server); err != nil {
		return err
	}
	empty, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rpc := grpc.NewServer()
	rpc.RegisterService(emptyService(), struct{}{})
	go func() { _ = rpc.Serve(empty) }() // it ends with an error if it is stopped before it begins
	defer rpc.Stop()
	e.at.Empty = empty.Addr().String()
	if err := l.say(e.at); err != nil {
		return err
	}
	return answer(l, func(struct{}) serverCounts {
		return serverCounts{Heap: liveHeap(), Served: server.Status().Served, Writes: store.writes.Load()}
	})
}

// liveHeap returns the bytes that live on the heap.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// oracleJob is what the callers of a process are to do: ask for Duration, or for Total timestamps;
// as fast as they can, or at Rate a second together.
type oracleJob struct {
	Callers  int           `json:"callers"`
	Duration time.Duration `json:"duration,omitempty"`
	Total    int64         `json:"total,omitempty"`
	Rate     float64       `json:"rate,omitempty"`
}

// oracleResult is what they did.
type oracleResult struct {
	Count     int64    `json:"count"`
	PerSecond float64  `json:"per_second"`
	Heap      int64    `json:"heap"`
	Latencies recorder `json:"latencies"`
	Error     string   `json:"error,omitempty"`
}

// oracleTargets is how a process with callers is set up.
type oracleTargets struct {
	Oracle  string `json:"oracle"`
	Clients int    `json:"clients"`
}

// oracleLoad is a process with callers of the oracle, each a goroutine: it does a job for each line
// that it hears.
func oracleLoad(ctx context.Context, at oracleTargets, l *lines) error {
	var clients []*tso.Client
	for range at.Clients {
		client, err := tso.Dial(ctx, at.Oracle)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		clients = append(clients, client)
	}
	return answer(l, func(j oracleJob) *oracleResult { return j.run(ctx, clients) })
}

// lot is how many timestamps a caller takes on at once that asks as fast as it can.
const lot = 64

func (j oracleJob) run(ctx context.Context, clients []*tso.Client) *oracleResult {
	var left, count atomic.Int64
	left.Store(j.Total)
	lots, out := int64(lot), new(oracleResult)
	if j.Rate > 0 {
		lots = 1
	}
	var over atomic.Bool
	l := generator{callers: j.Callers, rate: j.Rate, more: func() bool { return !over.Load() }}
	if j.Total > 0 {
		l.more = func() bool { return left.Add(-lot) > -lot }
	} else {
		defer time.AfterFunc(j.Duration, func() { over.Store(true) }).Stop()
	}
	last := make([]tso.Timestamp, j.Callers)
	begun := time.Now()
	err := l.run(ctx, func(ctx context.Context, caller int, due time.Time) error {
		for range lots {
			ts, err := clients[caller%len(clients)].Next(ctx)
			if err != nil {
				return err
			}
			if ts <= last[caller] {
				return fmt.Errorf("timestamp %d after %d", ts, last[caller])
			}
			last[caller] = ts
		}
		count.Add(lots)
		if j.Rate > 0 {
			out.Latencies.record(time.Since(due))
		}
		return nil
	})
	out.Count, out.PerSecond = count.Load(), float64(count.Load())/time.Since(begun).Seconds()
	if out.Heap = liveHeap(); err != nil {
		out.Error = err.Error()
	}
	return out
}

// oracleCallers is the processes with the callers.
type oracleCallers struct{ processes []*process }

// startCallers starts them. Each has one processor when there are as many as processors, as Go's
// scheduler hands no more timestamps to waiting callers with two of them than with one.
func (b *oracleBenchmark) startCallers(ctx context.Context, at addresses) (*oracleCallers, error) {
	env := collectSeldom()
	if b.processes >= runtime.NumCPU() {
		env = append(env, "GOMAXPROCS=1")
	}
	c := new(oracleCallers)
	for range b.processes {
		p, err := startPart(ctx, "tso-load", oracleTargets{at.Oracle, b.clients}, env...)
		if err != nil {
			return c, err
		}
		c.processes = append(c.processes, p)
	}
	return c, nil
}

func (c *oracleCallers) stop() (err error) {
	for _, p := range c.processes {
		err = errors.Join(err, p.stop())
	}
	return err
}

// run shares a job among the processes and adds up what they did.
func (c *oracleCallers) run(j oracleJob) (*oracleResult, error) {
	sum := new(oracleResult)
	n := len(c.processes)
	for i, p := range c.processes {
		share := j
		share.Callers = j.Callers*(i+1)/n - j.Callers*i/n
		share.Rate = j.Rate / float64(n)
		share.Total = j.Total*int64(i+1)/int64(n) - j.Total*int64(i)/int64(n)
		if err := p.say(share); err != nil {
			return nil, err
		}
	}
	for _, p := range c.processes {
		var r oracleResult
		if err := p.hear(&r); err != nil {
			return nil, err
		}
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		sum.Count, sum.PerSecond, sum.Heap = sum.Count+r.Count, sum.PerSecond+r.PerSecond, sum.Heap+r.Heap
		sum.Latencies.merge(&r.Latencies)
	}
	return sum, nil
}
