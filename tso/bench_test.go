package tso

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"
)

// BenchmarkNext measures timestamps delivered to distinct callers over gRPC on
// loopback, server and client sharing the machine. One operation is one timestamp.
func BenchmarkNext(b *testing.B) {
	for _, callers := range []int{1, 256, 1024, 4096} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			client := benchClient(b, ctx)
			benchmarkOracle(b, ctx, client, callers)
		})
	}
}

// BenchmarkServerNext measures a server that is called in its own process.
func BenchmarkServerNext(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	server, err := NewServer(NewMemoryStore(), ServerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	runCtx, stop := context.WithCancel(ctx)
	go func() { ended <- server.Run(runCtx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	if _, err := server.Next(ctx); err != nil {
		b.Fatal(err)
	}
	benchmarkOracle(b, ctx, server, 1)
}

func benchClient(b *testing.B, ctx context.Context) *Client {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server, err := NewServer(NewMemoryStore(), ServerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	serveCtx, stop := context.WithCancel(ctx)
	go func() { ended <- server.Serve(serveCtx, l) }()
	client, err := Dial(ctx, l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return client
}

func benchmarkOracle(b *testing.B, ctx context.Context, oracle Oracle, callers int) {
	b.ReportAllocs()
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for pb.Next() {
			if _, err := oracle.Next(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "timestamps/s")
}
