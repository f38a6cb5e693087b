package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/tso"
)

// oracleBenchmark measures the timestamp oracle.
type oracleBenchmark struct {
	callers            []int
	processes, clients int
	duration           time.Duration // of each measurement
	offered            int           // timestamps a second
	offeredCallers     int
	total              int64 // timestamps while memory is looked at; 0: none
}

func (b *oracleBenchmark) declare(f *flags) {
	numbers(f, &b.callers, "callers", []int{1, 256, 1024, 2048, 3072}, []int{1, 1024}, 1, 1_000_000, "callers that ask as fast as they can, in all processes")
	number(f, &b.processes, "processes", runtime.NumCPU(), runtime.NumCPU(), 1, 64, "processes with callers")
	number(f, &b.clients, "clients", 1, 1, 1, 64, "clients of the oracle in each process")
	number(f, &b.duration, "duration", 2*time.Second, 200*time.Millisecond, time.Millisecond, time.Hour, "of each measurement")
	number(f, &b.offered, "offered", 1_000_000, 1_000_000, 1, 100_000_000, "timestamps a second that are asked for to measure latencies")
	number(f, &b.offeredCallers, "offered-callers", 1024, 1024, 1, 1_000_000, "callers that ask for them")
	number(f, &b.total, "total", 0, 0, 0, 1e15, "timestamps to take while memory is looked at (0: none)")
	f.check(func() error {
		if b.offeredCallers < b.processes {
			return usagef("--offered-callers %d are fewer than --processes %d", b.offeredCallers, b.processes)
		}
		return nil
	})
}

// memorySteps is how often the heap is looked at while the timestamps are taken.
const memorySteps = 10

func (b *oracleBenchmark) run(ctx context.Context, r *run) (err error) {
	r.Title = fmt.Sprintf("timestamp oracle over gRPC on loopback, server in a process, callers in %d others", b.processes)
	r.all = 2 + len(b.callers)*r.repeat + memorySteps*int(min(b.total, 1))
	server, err := startPart(ctx, "tso-server", struct{}{}, append(collectSeldom(), "GOMAXPROCS=1")...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var at addresses
	if err := server.hear(&at); err != nil {
		return err
	}
	begun := time.Now()
	callers, err := b.startCallers(ctx, at)
	defer func() { err = errors.Join(err, callers.stop()) }()
	if err != nil {
		return err
	}
	for _, measure := range []func() error{
		func() error { return b.single(ctx, r, at) }, func() error { return b.rates(r, callers) },
		func() error { return b.latency(r, callers) }, func() error { return b.memory(r, callers, server) },
	} {
		if err := measure(); err != nil {
			return err
		}
	}
	var counts serverCounts
	if err := server.ask(struct{}{}, &counts); err != nil {
		return err
	}
	row := r.Table("store").Row("all measurements")
	row.Add("timestamps", counts.Served, "writes to the store", counts.Writes, "time, s", time.Since(begun).Seconds())
	r.Draw(report.Chart{Name: "tso", Title: "Timestamp oracle: callers that ask again at once", X: report.Axis{Label: "callers", Log: true},
		Y: report.Axis{Label: "timestamps a second"}, Lines: []report.Line{r.Table("rates").Line("", "callers", "timestamps", nil)}})
	return nil
}

// slice is how long one side is measured before it is the other's turn: whatever else the machine
// does then falls on both.
const slice = 20 * time.Millisecond

// single compares one caller's Next with an empty call, in turns.
func (b *oracleBenchmark) single(ctx context.Context, r *run, at addresses) error {
	client, err := tso.Dial(ctx, at.Oracle)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	conn, err := grpc.NewClient(at.Empty, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	next := func() error { _, err := client.Next(ctx); return err }
	empty := func() error { return conn.Invoke(ctx, emptyMethod, &emptypb.Empty{}, new(emptypb.Empty)) }
	var nexts, empties, ratios []float64
	for begun := time.Now(); time.Since(begun) < 2*b.duration || len(ratios) < 3; {
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
	begun := time.Now()
	for ; time.Since(begun) < slice; n++ {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begun).Nanoseconds()) / 1e3 / float64(n), ctx.Err()
}

// rates lets the callers ask as fast as they can.
func (b *oracleBenchmark) rates(r *run, callers *oracleCallers) error {
	for _, n := range b.callers {
		var samples []float64
		for range r.repeat {
			sum, err := callers.run(oracleJob{Callers: n, Duration: b.duration})
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
func (b *oracleBenchmark) latency(r *run, callers *oracleCallers) error {
	sum, err := callers.run(oracleJob{Callers: b.offeredCallers, Duration: b.duration, Rate: float64(b.offered)})
	if err != nil {
		return fmt.Errorf("%d timestamps a second: %w", b.offered, err)
	}
	row := r.Table("latency").Row(strconv.Itoa(b.offeredCallers) + " callers")
	row.Add("offered, 1/s", b.offered, "delivered, 1/s", sum.PerSecond)
	sum.Latencies.into(row)
	r.step()
	return nil
}

// memory takes timestamps and looks at what lives on the heaps.
func (b *oracleBenchmark) memory(r *run, callers *oracleCallers, server *process) error {
	taken := int64(0)
	for i := range memorySteps * int(min(b.total, 1)) {
		sum, err := callers.run(oracleJob{Callers: 1024, Total: b.total*int64(i+1)/memorySteps - taken})
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
