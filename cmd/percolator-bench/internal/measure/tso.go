package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/tso"
)

// oracleBenchmark measures the timestamp oracle.
type oracleBenchmark struct {
	Callers            []int
	Processes, Clients int
	Duration           time.Duration // of each measurement
	Offered            int           // timestamps a second
	OfferedCallers     int
	Total              int64 // timestamps while memory is looked at; 0: none
}

func (b *oracleBenchmark) check() error {
	return unless(b.OfferedCallers >= b.Processes, "--offered-callers %d are fewer than --processes %d", b.OfferedCallers, b.Processes)
}

// memorySteps is how often the heap is looked at while the timestamps are taken.
const memorySteps = 10

func (b *oracleBenchmark) run(ctx context.Context, r *run) (err error) {
	r.Title = fmt.Sprintf("timestamp oracle over gRPC on loopback, server in a process, callers in %d others", b.Processes)
	r.all = 2 + len(b.Callers)*r.Repeat + memorySteps*int(min(b.Total, 1))
	e := new(environment)
	defer e.closeInto(&err)
	var counts serverCounts
	server := e.part(ctx, "tso-server", struct{}{}, &counts, append(collectSeldom(), "GOMAXPROCS=1")...)
	e.at = counts.At
	started := time.Now()
	callers := oracleCallers(nil)
	env := collectSeldom()
	if b.Processes >= runtime.NumCPU() {
		// As many as processors have one each, as Go's scheduler hands no more timestamps to
		// waiting callers with two of them than with one.
		env = append(env, "GOMAXPROCS=1")
	}
	for range b.Processes {
		callers = append(callers, e.part(ctx, "tso-load", oracleTargets{e.at.Oracle, b.Clients}, nil, env...))
	}
	if e.err != nil {
		return e.err
	}
	for _, measure := range []func() error{
		func() error { return b.single(ctx, r, e.at) }, func() error { return b.rates(r, callers) },
		func() error { return b.latency(r, callers) }, func() error { return b.memory(r, callers, server) },
	} {
		if err := measure(); err != nil {
			return err
		}
	}
	if err := server.ask(struct{}{}, &counts); err != nil {
		return err
	}
	row := r.Table("store").Row("all measurements")
	row.Add("timestamps", counts.Served, "writes to the store", counts.Writes, "time, s", time.Since(started).Seconds())
	r.Draw(report.Chart{Name: "tso", Title: "Timestamp oracle: callers that ask again at once", X: report.Axis{Label: "callers", Log: true},
		Y: report.Axis{Label: "timestamps a second"}, Lines: []report.Line{r.Table("rates").Line("", "callers", "timestamps", nil)}})
	return nil
}

// slice is how long one side is measured before it is the other's turn: whatever else the machine
// does then falls on both.
const slice = 20 * time.Millisecond

// single compares one caller's Next with an empty call, in turns.
func (b *oracleBenchmark) single(ctx context.Context, r *run, at addresses) (err error) {
	e := new(environment)
	defer e.closeInto(&err)
	client := e.dial(ctx, at.Oracle)
	conn, err := grpc.NewClient(at.Empty, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err := errors.Join(err, e.err); err != nil {
		return err
	}
	e.closers = append(e.closers, conn.Close)
	next := func() error { _, err := client.Next(ctx); return err }
	service := testgrpc.NewTestServiceClient(conn)
	empty := func() error { _, err := service.EmptyCall(ctx, new(testgrpc.Empty)); return err }
	var nexts, empties, ratios []float64
	for started := time.Now(); time.Since(started) < 2*b.Duration || len(ratios) < 3; {
		n, err := roundTrip(ctx, next)
		if err != nil {
			return fmt.Errorf("one caller: %w", err)
		}
		e, err := roundTrip(ctx, empty)
		if err != nil {
			return fmt.Errorf("empty calls: %w", err)
		}
		nexts, empties, ratios = append(nexts, n), append(empties, e), append(ratios, n/e)
	}
	t := r.Table("one caller")
	t.Row("round trip").Add("time, µs", nexts)
	t.Row("empty call").Add("time, µs", empties)
	t.Row("ratio").Add("ratio", ratios)
	t.Row("ratio").Want(report.Goal{Wanted: 1.3})
	r.step()
	return nil
}

// roundTrip returns the microseconds that one call takes, of those made in a slice.
func roundTrip(ctx context.Context, call func() error) (float64, error) {
	n := 0
	started := time.Now()
	for ; time.Since(started) < slice; n++ {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(started).Nanoseconds()) / 1e3 / float64(n), ctx.Err()
}

// rates lets the callers ask as fast as they can.
func (b *oracleBenchmark) rates(r *run, callers oracleCallers) error {
	for _, n := range b.Callers {
		var samples []float64
		for range r.Repeat {
			sum, err := callers.run(oracleJob{Callers: n, Duration: b.Duration})
			if err != nil {
				return fmt.Errorf("%d callers: %w", n, err)
			}
			samples = append(samples, sum.PerSecond)
			r.step()
		}
		row := r.Table("rates").Row(strconv.Itoa(n) + " callers")
		row.Add("callers", n, "timestamps, 1/s", samples)
	}
	return nil
}

// latency lets each caller ask at its own times. A caller that is late counts as waiting.
func (b *oracleBenchmark) latency(r *run, callers oracleCallers) error {
	sum, err := callers.run(oracleJob{Callers: b.OfferedCallers, Duration: b.Duration, Rate: float64(b.Offered)})
	if err != nil {
		return fmt.Errorf("%d timestamps a second: %w", b.Offered, err)
	}
	row := r.Table("latency").Row(strconv.Itoa(b.OfferedCallers) + " callers")
	row.Add("offered, 1/s", b.Offered, "delivered, 1/s", sum.PerSecond)
	sum.Latencies.into(row)
	r.step()
	return nil
}

// memory takes timestamps and looks at what lives on the heaps.
func (b *oracleBenchmark) memory(r *run, callers oracleCallers, server *process) error {
	taken := int64(0)
	for i := range memorySteps * int(min(b.Total, 1)) {
		sum, err := callers.run(oracleJob{Callers: 1024, Total: b.Total*int64(i+1)/memorySteps - taken})
		if err != nil {
			return err
		}
		taken += sum.Count
		var counts serverCounts
		if err := server.ask(struct{}{}, &counts); err != nil {
			return err
		}
		row := r.Table("memory").Append("live heap")
		row.Add("timestamps", taken, "server, KB", counts.Heap>>10, "callers, KB", sum.Heap>>10)
		r.step()
	}
	return nil
}

// emptyService answers calls with nothing in them, which timestamps are compared with.
type emptyService struct {
	testgrpc.UnimplementedTestServiceServer
}

// EmptyCall implements testgrpc.TestServiceServer.
func (emptyService) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return new(testgrpc.Empty), nil
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
	At                   addresses
	Heap, Served, Writes int64
}

// oracleServer is the process with the oracle's server.
func oracleServer(ctx context.Context, _ struct{}, l *lines) error {
	e, store := new(environment), &countingStore{Store: tso.NewMemoryStore()}
	server := e.serveOracle(ctx, store, tso.ServerConfig{})
	rpc := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(rpc, emptyService{})
	if empty := e.listen(); empty != nil {
		e.at.Empty = empty.Addr().String()
		// Serve fails if the server is stopped before it begins.
		go func() { _ = rpc.Serve(empty) }()
		e.closers = append(e.closers, func() error { rpc.Stop(); return nil })
	}
	return answer(l, e, func(struct{}) (serverCounts, error) {
		return serverCounts{At: e.at, Heap: liveHeap(), Served: server.Status().Served, Writes: store.writes.Load()}, nil
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
	Callers  int
	Duration time.Duration
	Total    int64
	Rate     float64
}

// oracleResult is what they did.
type oracleResult struct {
	Count, Heap int64
	PerSecond   float64
	Latencies   recorder
}

// oracleTargets is how a process with callers is set up.
type oracleTargets struct {
	Oracle  string
	Clients int
}

// oracleLoad is a process with callers of the oracle, each a goroutine: it does a job for each line
// that it hears.
func oracleLoad(ctx context.Context, at oracleTargets, l *lines) error {
	e, clients := new(environment), make([]*tso.Client, at.Clients)
	for i := range clients {
		clients[i] = e.dial(ctx, at.Oracle)
	}
	return answer(l, e, func(j oracleJob) (*oracleResult, error) { return j.run(ctx, clients) })
}

// lot is how many timestamps a caller takes on at once that asks as fast as it can.
const lot = 64

func (j oracleJob) run(ctx context.Context, clients []*tso.Client) (*oracleResult, error) {
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
	started := time.Now()
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
	out.Count, out.PerSecond = count.Load(), float64(count.Load())/time.Since(started).Seconds()
	out.Heap = liveHeap()
	return out, err
}

// oracleCallers is the processes with the callers.
type oracleCallers []*process

// run shares a job among the processes and adds up what they did.
func (c oracleCallers) run(j oracleJob) (*oracleResult, error) {
	sum := new(oracleResult)
	n := len(c)
	for i, p := range c {
		share := j
		share.Callers = j.Callers*(i+1)/n - j.Callers*i/n
		share.Rate = j.Rate / float64(n)
		share.Total = j.Total*int64(i+1)/int64(n) - j.Total*int64(i)/int64(n)
		if err := p.say(share); err != nil {
			return nil, err
		}
	}
	for _, p := range c {
		var r oracleResult
		if err := p.hear(&r); err != nil {
			return nil, err
		}
		sum.Count, sum.PerSecond, sum.Heap = sum.Count+r.Count, sum.PerSecond+r.PerSecond, sum.Heap+r.Heap
		sum.Latencies.merge(&r.Latencies)
	}
	return sum, nil
}
