//go:build unix

package loader_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// BenchmarkLoader compares loading one by one – a transaction for each item, the next one when it
// has committed – with Load, on the same store in one run: rows of 200 bytes, blind or after a
// look at what is there. At 5 ms each request and each timestamp takes that much longer, as over a
// network; without that the processor is the limit, which this process shares with the emulator.
func BenchmarkLoader(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		for name, kind := range map[string]benchKind{
			"blind": {loader.Each(benchSet), []percolator.TxnOption{percolator.Blind()}},
			"read":  {benchReadAndSet, nil},
		} {
			b.Run(fmt.Sprintf("%s/%v", name, latency), func(b *testing.B) { kind.run(b, latency) })
		}
	}
}

// benchKind is a way to write the items of the benchmark, which are rows of table t.
type benchKind struct {
	write   loader.Write[string]
	options []percolator.TxnOption
}

func (k benchKind) run(b *testing.B, latency time.Duration) {
	env := percolatortest.New(b, schema)
	client := slowClient(b, env, latency)
	one, many := 400, 8000
	if latency > 0 {
		one = 40
	}
	var alone, together spent
	for i := 0; b.Loop(); i++ {
		began := now()
		for n := range one {
			if _, err := client.Update(b.Context(), func(ctx context.Context, tx *percolator.Txn) error {
				return k.write(ctx, tx, []string{fmt.Sprintf("one-%d-%d", i, n)})
			}, k.options...); err != nil {
				b.Fatal(err)
			}
		}
		if err := client.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		alone.since(began)

		began = now()
		r, err := loader.Load(b.Context(), client, loader.Config{Name: fmt.Sprint(i), TxnOptions: k.options}, loader.Job[string]{
			Source: source(fmt.Sprintf("many-%d-", i), many),
			Write:  k.write,
		})
		if err != nil || r.Items != int64(many) {
			b.Fatalf("%d items, %v", r.Items, err)
		}
		if err := client.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		together.since(began)
	}
	report(b, alone, one*b.N, together, many*b.N)
}

// spent is the time that something took, and the processor's.
type spent struct{ wall, cpu time.Duration }

func now() spent {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return spent{time.Duration(time.Now().UnixNano()), time.Duration(r.Utime.Nano() + r.Stime.Nano())}
}

func (s *spent) since(began spent) {
	n := now()
	s.wall, s.cpu = s.wall+n.wall-began.wall, s.cpu+n.cpu-began.cpu
}

// report gives both rates, their ratio, and what an item costs the processor, the emulator's part
// included: this is less at the mercy of others that use the machine.
func report(b *testing.B, alone spent, one int, together spent, many int) {
	slow, fast := float64(one)/alone.wall.Seconds(), float64(many)/together.wall.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(slow, "one-by-one/s")
	b.ReportMetric(fast, "loader/s")
	b.ReportMetric(fast/slow, "ratio")
	b.ReportMetric(float64(alone.cpu.Microseconds())/float64(one), "one-by-one-cpu-µs")
	b.ReportMetric(float64(together.cpu.Microseconds())/float64(many), "loader-cpu-µs")
}

// value is what the rows of the benchmark hold.
var value = make([]byte, 200)

func benchSet(_ context.Context, tx *percolator.Txn, row string) error {
	return tx.Set(percolator.Cell{Table: "t", Row: row, Column: "c"}, value)
}

// benchReadAndSet writes the rows that are not there.
func benchReadAndSet(ctx context.Context, tx *percolator.Txn, rows []string) error {
	cells := make([]percolator.Cell, len(rows))
	for i, row := range rows {
		cells[i] = percolator.Cell{Table: "t", Row: row, Column: "c"}
	}
	values, err := tx.GetMulti(ctx, cells...)
	if err != nil {
		return err
	}
	for i, c := range cells {
		if values[i] == nil {
			if err := tx.Set(c, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// slowClient is a client of its own, without what tests put between a client and its store, whose
// requests to the store and the oracle take longer.
func slowClient(b *testing.B, env *percolatortest.Env, latency time.Duration, more ...option.ClientOption) *percolator.Client {
	b.Helper()
	opts := append(env.Options(), more...)
	if latency > 0 {
		opts = append(opts, slow(latency)...)
	}
	c, err := percolator.NewClient(b.Context(), percolator.Config{
		Project: env.Project, Instance: env.Instance, Oracle: slowOracle{env.Oracle, latency},
	}, opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// slow delays every request.
func slow(latency time.Duration) []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			time.Sleep(latency)
			return invoke(ctx, method, req, reply, cc, opts...)
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			time.Sleep(latency)
			return open(ctx, desc, cc, method, opts...)
		})),
	}
}

type slowOracle struct {
	tso.Oracle
	latency time.Duration
}

func (o slowOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	if o.latency > 0 {
		time.Sleep(o.latency)
	}
	return o.Oracle.Next(ctx)
}
