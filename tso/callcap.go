package tso

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callCap bounds the calls that a server works on at once, over all connections. A
// call above the bound is refused at once instead of adding to the load.
type callCap struct {
	max     int64
	running atomic.Int64
}

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
	if c.running.Add(1) > c.max {
		c.running.Add(-1)
		return errTooManyCalls
	}
	defer c.running.Add(-1)
	return handle(srv, stream)
}
