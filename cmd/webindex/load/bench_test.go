//go:build unix

package load_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// BenchmarkLoad compares loading a crawl one by one – read a page, commit its transaction, read
// the next one – with Load, in one run on the same store, while no worker runs. At 5 ms each
// request and each timestamp takes that much longer, as over a network; without that the processor
// is the limit, which this process shares with the emulator.
func BenchmarkLoad(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		b.Run(latency.String(), func(b *testing.B) {
			w := webtest.New(b, 0)
			client := slowClient(b, w, latency)
			one, many := 400, 5000
			if latency > 0 {
				one = 50
			}
			var alone, together spent
			for i := 0; b.Loop(); i++ {
				few, all := pagesFile(b, fmt.Sprintf("one-%d", i), one), pagesFile(b, fmt.Sprintf("many-%d", i), many)
				alone.add(timed(b, client, func(ctx context.Context) error { return oneByOne(ctx, client, few) }))
				l := &load.Loader{Client: client, Log: slog.New(slog.DiscardHandler)}
				together.add(timed(b, client, func(ctx context.Context) error { return l.Load(ctx, load.Path(all)) }))
				if n := l.Counts().Changed; n != int64(many) {
					b.Fatalf("%d pages were written", n)
				}
			}
			report(b, alone, one*b.N, together, many*b.N)
		})
	}
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

func (s *spent) add(d spent) { s.wall, s.cpu = s.wall+d.wall, s.cpu+d.cpu }

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

// timed runs f and waits until everything that it has committed is in its place.
func timed(b *testing.B, client *percolator.Client, f func(context.Context) error) spent {
	b.Helper()
	began := now()
	if err := f(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	var d spent
	d.since(began)
	return d
}

func oneByOne(ctx context.Context, client *percolator.Client, path string) error {
	in, err := crawl.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	for r, err := range in.Responses(ctx) {
		if err != nil {
			return err
		}
		if _, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			return index.Load(ctx, tx, []*index.Page{index.NewPage(r.URL, index.NewCapture(r))})
		}); err != nil {
			return err
		}
	}
	return nil
}

// pagesFile is a crawl of pages with 2 kB of text each.
func pagesFile(b *testing.B, site string, pages int) string {
	b.Helper()
	records := make([]string, pages)
	for i := range records {
		records[i] = record(fmt.Sprintf("http://%s.test/%d", site, i), webtest.Page(fmt.Sprint(i), strings.Repeat("some more words ", 128), "next the next one"))
	}
	return file(b, site+".warc", records...)
}

// slowClient is a client of its own, without what tests put between a client and its store, whose
// requests to the store and the oracle take longer.
func slowClient(b *testing.B, w *webtest.Web, latency time.Duration) *percolator.Client {
	b.Helper()
	opts := w.Env.Options()
	if latency > 0 {
		opts = append(opts, slow(latency)...)
	}
	c, err := percolator.NewClient(b.Context(), percolator.Config{
		Project: w.Env.Project, Instance: w.Env.Instance, Oracle: slowOracle{w.Env.Oracle, latency},
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
