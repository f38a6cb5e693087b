package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gopercolator/percolator/tso"
)

// emptyMethod is the call with nothing in it that timestamps are compared with.
const emptyMethod = "/percolator.bench.Empty/Call"

var emptyService = grpc.ServiceDesc{
	ServiceName: "percolator.bench.Empty",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return new(emptypb.Empty), decode(new(emptypb.Empty))
		},
	}},
}

// countingStore counts the writes of a store.
type countingStore struct {
	tso.Store
	writes atomic.Int64
}

func (s *countingStore) CompareAndSwap(ctx context.Context, old, next tso.State) error {
	s.writes.Add(1)
	return s.Store.CompareAndSwap(ctx, old, next)
}

// Server is the process with the oracle's server: it prints where it listens, and
// its statistics for each line that it reads, until the input ends.
func Server(ctx context.Context, in io.Reader, out io.Writer) error {
	store := &countingStore{Store: tso.NewMemoryStore()}
	server, err := tso.NewServer(store, tso.ServerConfig{})
	if err != nil {
		return err
	}
	oracle, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	empty, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, oracle.Close())
	}
	rpc := grpc.NewServer()
	rpc.RegisterService(&emptyService, struct{}{})

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, oracle) })
	group.Go(func() error { return rpc.Serve(empty) })
	group.Go(func() error {
		defer cancel()
		defer rpc.Stop()
		answers := json.NewEncoder(out)
		if err := answers.Encode(addresses{Oracle: oracle.Addr().String(), Empty: empty.Addr().String()}); err != nil {
			return err
		}
		for questions := json.NewDecoder(in); ; {
			var question struct{}
			if err := questions.Decode(&question); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := answers.Encode(serverStats{Heap: liveHeap(), Served: server.Status().Served, Writes: store.writes.Load()}); err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// liveHeap returns the bytes that live on the heap.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
