package tso

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"github.com/gopercolator/percolator/internal/serve"
)

// Bounds of calls whose message has not arrived in full. Nothing else bounds what a server holds of
// them: gRPC reads a call's deadline, and waits for a message without one for ever.
const (
	maxArriving = 2048
	maxArrival  = 2 * time.Second // from a call's headers to the end of its message

	// hastyArrival is the time for those above the bound. Most messages come together with their
	// headers.
	hastyArrival = 20 * time.Millisecond
)

// arrivals ends calls whose message does not arrive.
type arrivals struct {
	calls *serve.Quota
	begun func(ctx context.Context) // is told of each call
}

func newArrivals(most, share int, begun func(context.Context)) arrivals {
	return arrivals{serve.NewSharedQuota(min(most, maxArriving), share), begun}
}

// arrivedKey is the key of the function that ends the time of a call's arrival.
type arrivedKey struct{}

// begin is called with the headers of each call ([grpc.InTapHandle]). It returns no error: gRPC
// would keep the timer of the call's deadline until it ends.
func (a arrivals) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	a.begun(ctx)
	ctx, cancel := context.WithCancel(ctx)
	peer := peerOf(ctx)
	if !a.calls.Take(peer, 1) {
		late := time.AfterFunc(hastyArrival, cancel)
		return context.WithValue(ctx, arrivedKey{}, func() { late.Stop() }), nil
	}
	late := time.AfterFunc(maxArrival, cancel)
	end := sync.OnceFunc(func() {
		late.Stop()
		a.calls.Release(peer, 1)
	})
	context.AfterFunc(ctx, end)
	return context.WithValue(ctx, arrivedKey{}, end), nil
}

// arrived notes that the message of the call of ctx has arrived.
func arrived(ctx context.Context) {
	if f, ok := ctx.Value(arrivedKey{}).(func()); ok {
		f()
	}
}

// unaryArrived is an interceptor: gRPC calls it when it has the message.
func unaryArrived(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	arrived(ctx)
	return handle(ctx, req)
}

// streamArrived is an interceptor. The handler of a stream asks for its first message itself.
func streamArrived(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, arrivingStream{stream})
}

type arrivingStream struct{ grpc.ServerStream }

// RecvMsg implements [grpc.ServerStream].
func (s arrivingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	arrived(s.Context())
	return err
}
