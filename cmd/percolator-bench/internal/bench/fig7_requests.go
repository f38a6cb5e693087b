package bench

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// fig7Requests counts the requests of a client to Bigtable by method, and knows whether one is under way.
type fig7Requests struct {
	mu       sync.Mutex
	n        map[string]int64
	underWay int
	last     time.Time // when one began or ended
}

// option makes a client's requests count.
func (r *fig7Requests) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithStatsHandler(r))
}

type fig7Method struct{} // key of a context

// TagRPC implements stats.Handler: the method is known here only.
func (r *fig7Requests) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, fig7Method{}, path.Base(info.FullMethodName))
}

// HandleRPC implements stats.Handler.
func (r *fig7Requests) HandleRPC(ctx context.Context, event stats.RPCStats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch event.(type) {
	case *stats.Begin:
		if r.n == nil {
			r.n = map[string]int64{}
		}
		method, _ := ctx.Value(fig7Method{}).(string)
		r.n[method]++
		r.underWay++
	case *stats.End:
		r.underWay--
	default:
		return
	}
	r.last = time.Now()
}

// TagConn and HandleConn implement stats.Handler.
func (r *fig7Requests) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (r *fig7Requests) HandleConn(context.Context, stats.ConnStats) {}

// take returns the counts since the last call.
func (r *fig7Requests) take() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.n
	r.n = nil
	return out
}

// awaitQuiet waits until there has been no request for so long.
func (r *fig7Requests) awaitQuiet(ctx context.Context, d time.Duration) error {
	for {
		r.mu.Lock()
		wait := d - time.Since(r.last)
		if r.underWay > 0 {
			wait = d
		}
		r.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(wait)); err != nil {
			return fmt.Errorf("there were always requests: %w", err)
		}
	}
}
