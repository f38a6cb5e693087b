package tso

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callCap bounds the calls that a server works on at once, over all connections. A
// call above the bound is refused at once instead of adding to the load. Streams have a
// bound of their own: those of the health service last, and must not take the place of
// calls for timestamps.
type callCap struct {
	max     int64
	running atomic.Int64
	streams atomic.Int64
}

// maxLastingStreams is how many streams, of watchers of health, a server serves.
const maxLastingStreams = 1024

var errTooManyCalls = status.Error(codes.ResourceExhausted, "too many calls at once")

func (c *callCap) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if c.running.Add(1) > c.max {
		c.running.Add(-1)
		return nil, errTooManyCalls
	}
	defer c.running.Add(-1)
	return handle(ctx, req)
}

func (c *callCap) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if c.streams.Add(1) > min(c.max, maxLastingStreams) {
		c.streams.Add(-1)
		return errTooManyCalls
	}
	defer c.streams.Add(-1)
	return handle(srv, stream)
}
