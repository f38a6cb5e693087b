package percolatortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gopercolator/percolator/tso"
)

// options returns the client options that put f between a Bigtable client and the store.
func (f *Faults) options() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(f.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(f.stream)),
	}
}

const dataService = "/google.bigtable.v2.Bigtable/"

// The methods that faults are about: those with one answer, and those with a stream of answers,
// each with the type of one.
var (
	unaryMethods  = []string{MutateRow, CheckAndMutateRow, ReadModifyWriteRow}
	streamMethods = map[string]proto.Message{
		ReadRows: &btpb.ReadRowsResponse{}, MutateRows: &btpb.MutateRowsResponse{}, SampleRowKeys: &btpb.SampleRowKeysResponse{},
	}
)

// fresh is an empty message of the type of m.
func fresh(m proto.Message) proto.Message { return m.ProtoReflect().New().Interface() }

func (f *Faults) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	short, isData := strings.CutPrefix(method, dataService)
	in, out := req.(proto.Message), reply.(proto.Message)
	if !isData || !slices.Contains(unaryMethods, short) { // a ping, say
		if f.Crashed() {
			return f.errCrashed()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	r, action, err := f.decide(ctx, short, proto.Clone(in))
	if err != nil {
		return err
	}
	if action == Pass {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	got := f.carryOut(ctx, r, action, func(ctx context.Context) answer {
		late := fresh(out)
		err := invoke(ctx, method, r.Message, late, cc, detached(opts)...)
		return answer{messages: []proto.Message{late}, err: err}
	})
	if got.err != nil {
		return got.err
	}
	proto.Merge(out, got.messages[0])
	return nil
}

// detached leaves out the options that write into variables of the caller, who may be gone when the
// request is delivered.
func detached(opts []grpc.CallOption) (out []grpc.CallOption) {
	for _, o := range opts {
		switch o.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption, grpc.OnFinishCallOption:
		default:
			out = append(out, o)
		}
	}
	return out
}

func (f *Faults) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	short := strings.TrimPrefix(method, dataService)
	reply, isData := streamMethods[short]
	if !isData {
		if f.Crashed() {
			return nil, f.errCrashed()
		}
		return open(ctx, desc, cc, method, opts...)
	}
	return &call{
		faults: f, ctx: ctx, method: short, reply: reply,
		open: func(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(ctx, desc, cc, method, opts...)
		},
		opts: opts,
	}, nil
}

// call is the client's side of a request with a stream of answers. It is sent when the client has
// said all that it wants to say.
type call struct {
	faults *Faults
	ctx    context.Context
	method string
	reply  proto.Message // of the type of its answers
	open   func(context.Context, ...grpc.CallOption) (grpc.ClientStream, error)
	opts   []grpc.CallOption

	request proto.Message
	live    grpc.ClientStream // of a request that passes
	answer  answer            // of any other
}

// SendMsg keeps a copy of the request.
func (c *call) SendMsg(m any) error {
	if c.request != nil {
		return status.Errorf(codes.Internal, "percolatortest: %s with more than one request", c.method)
	}
	c.request = proto.Clone(m.(proto.Message))
	return nil
}

// CloseSend decides about the request and carries that out. Errors show in RecvMsg, as they do
// without faults.
func (c *call) CloseSend() error {
	r, action, err := c.faults.decide(c.ctx, c.method, c.request)
	switch {
	case err != nil:
		c.answer.err = err
	case action == Pass:
		c.live, c.answer.err = c.start(c.ctx, c.opts)
	default:
		c.answer = c.faults.carryOut(c.ctx, r, action, c.deliver)
	}
	return nil
}

func (c *call) start(ctx context.Context, opts []grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.open(ctx, opts...)
	if err != nil {
		return nil, err
	}
	// After EOF RecvMsg tells why.
	if err := s.SendMsg(c.request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, s.CloseSend()
}

// deliver sends the request and gathers the whole answer.
func (c *call) deliver(ctx context.Context) (got answer) {
	s, err := c.start(ctx, detached(c.opts))
	for err == nil {
		m := fresh(c.reply)
		if err = s.RecvMsg(m); err == nil {
			got.messages = append(got.messages, m)
		}
	}
	if !errors.Is(err, io.EOF) {
		got.err = err
	}
	return got
}

func (c *call) RecvMsg(m any) error {
	if c.live != nil {
		return c.live.RecvMsg(m)
	}
	if len(c.answer.messages) == 0 {
		if c.answer.err != nil {
			return c.answer.err
		}
		return io.EOF
	}
	proto.Merge(m.(proto.Message), c.answer.messages[0])
	c.answer.messages = c.answer.messages[1:]
	return nil
}

func (c *call) Context() context.Context { return c.ctx }

func (c *call) Header() (metadata.MD, error) {
	if c.live != nil {
		return c.live.Header()
	}
	return nil, nil
}

func (c *call) Trailer() metadata.MD {
	if c.live != nil {
		return c.live.Trailer()
	}
	return nil
}

// clientOracle puts f between a client and the oracle.
type clientOracle struct {
	faults *Faults
	oracle tso.Oracle
}

// Next asks the oracle for a timestamp, as far as the client's faults allow.
func (o clientOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	return o.ask(ctx, o.oracle.Next)
}

// NextBlock asks the oracle for timestamps in a row, by one request, as far as the client's faults
// allow.
func (o clientOracle) NextBlock(ctx context.Context, n int) (tso.Timestamp, error) {
	return o.ask(ctx, func(ctx context.Context) (tso.Timestamp, error) { return o.oracle.(tso.Blocks).NextBlock(ctx, n) })
}

func (o clientOracle) ask(ctx context.Context, next func(context.Context) (tso.Timestamp, error)) (tso.Timestamp, error) {
	r, action, err := o.faults.decide(ctx, Oracle, nil)
	if err != nil {
		return 0, err
	}
	if action == Pass {
		return next(ctx)
	}
	got := o.faults.carryOut(ctx, r, action, func(ctx context.Context) answer {
		ts, err := next(ctx)
		return answer{messages: []proto.Message{wrapperspb.Int64(int64(ts))}, err: err}
	})
	if status.Code(got.err) == codes.Unavailable { // as tso.Client says it, without a code
		got.err = fmt.Errorf("%w: %s", tso.ErrUnavailable, status.Convert(got.err).Message())
	}
	if got.err != nil {
		return 0, got.err
	}
	return tso.Timestamp(got.messages[0].(*wrapperspb.Int64Value).Value), nil
}
