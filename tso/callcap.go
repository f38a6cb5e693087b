package tso

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/serve"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// callCap bounds the calls that a server works on at once, over all connections and of each peer.
// It refuses a call above the bound at once instead of adding to the load. Calls that wait for
// hints, and streams, which watch health, have bounds of their own: both last, and must not take
// the slots of calls for timestamps.
type callCap struct{ calls, waits, streams *serve.Quota }

// Calls that last, whatever MaxCalls is.
const (
	maxWaitingCalls   = 4096 // for hints
	maxLastingStreams = 1024 // of watchers of health
)

func newCallCap(most, share int) callCap {
	return callCap{
		calls: serve.NewSharedQuota(most, share), waits: serve.NewSharedQuota(min(most, maxWaitingCalls), share),
		streams: serve.NewSharedQuota(min(most, maxLastingStreams), share),
	}
}

var errTooManyCalls = status.Error(codes.ResourceExhausted, "too many calls at once")

// of returns what bounds calls of a method.
func (c callCap) of(info *grpc.UnaryServerInfo) *serve.Quota {
	if info.FullMethod == tsopb.Hints_TakeHints_FullMethodName {
		return c.waits
	}
	return c.calls
}

// unary is an interceptor of calls within the process, see [answers] for others.
func (c callCap) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	q, peer := c.of(info), peerOf(ctx)
	if !q.Take(peer, 1) {
		return nil, errTooManyCalls
	}
	defer q.Release(peer, 1)
	return handle(ctx, req)
}
