package tso

import (
	"context"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callCap bounds the calls that a server works on at once, over all connections. It refuses a call
// above the bound at once instead of adding to the load. Streams have a bound of their own: those
// of the health service last, and must not take the slots of calls for timestamps.
type callCap struct{ calls, streams *semaphore.Weighted }

// maxLastingStreams is how many streams, of watchers of health, a server serves.
const maxLastingStreams = 1024

func newCallCap(most int) callCap {
	return callCap{semaphore.NewWeighted(int64(most)), semaphore.NewWeighted(min(int64(most), maxLastingStreams))}
}

var errTooManyCalls = status.Error(codes.ResourceExhausted, "too many calls at once")

func (c callCap) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if !c.calls.TryAcquire(1) {
		return nil, errTooManyCalls
	}
	defer c.calls.Release(1)
	return handle(ctx, req)
}

func (c callCap) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if !c.streams.TryAcquire(1) {
		return errTooManyCalls
	}
	defer c.streams.Release(1)
	return handle(srv, stream)
}
