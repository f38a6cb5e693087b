package bench

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso"
)

// wire is the network between a client and Bigtable: each request takes a time, and somebody may look at it.
type wire struct {
	delay time.Duration
	saw   func(ctx context.Context, req any) // nil: nobody looks. Called from many goroutines
}

// option puts a client of Bigtable on the wire.
func (w wire) option() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(w.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(w.stream)),
	}
}

func (w wire) unary(ctx context.Context, method string, req, resp any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if w.saw != nil {
		w.saw(ctx, req)
	}
	if err := letPass(ctx, w.delay); err != nil {
		return err
	}
	return invoke(ctx, method, req, resp, conn, opts...)
}

// stream delays a request whose answer is a stream, such as ReadRows. There is one request in each.
func (w wire) stream(ctx context.Context, desc *grpc.StreamDesc,
	conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if err := letPass(ctx, w.delay); err != nil {
		return nil, err
	}
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil || w.saw == nil {
		return s, err
	}
	return seenStream{s, func(req any) { w.saw(ctx, req) }}, nil
}

type seenStream struct {
	grpc.ClientStream
	saw func(req any)
}

// SendMsg implements grpc.ClientStream.
func (s seenStream) SendMsg(req any) error {
	s.saw(req)
	return s.ClientStream.SendMsg(req)
}

// letPass lets the time of one request pass.
func letPass(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// distantOracle is an oracle to which each request for a timestamp takes a time. What else it offers – sessions, hints, locks on
// rows – is passed on as it is: no transaction waits for it.
type distantOracle struct {
	*tso.Client
	delay time.Duration

	waited, ahead atomic.Int64 // requests that a measured transaction waited for, and those made in the background
}

// waitedFor marks the context of a transaction that is measured. The client's own goroutines have another.
type waitedFor struct{}

func asMeasured(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitedFor{}, true)
}

// Next implements tso.Oracle.
func (o *distantOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	if ctx.Value(waitedFor{}) != nil {
		o.waited.Add(1)
	} else {
		o.ahead.Add(1)
	}
	if err := letPass(ctx, o.delay); err != nil {
		return 0, err
	}
	return o.Client.Next(ctx)
}
