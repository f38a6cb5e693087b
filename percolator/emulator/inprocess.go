package emulator

import (
	"context"
	"io"
	"sync/atomic"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// InProcess returns options that make a client of this process call the emulator's data methods as
// functions. Messages are copied, but neither encoded nor framed, which is most of what a test
// computes. The options belong after ClientOptions and after every interceptor of the caller, as
// they carry requests out. The answers are the same; there are no headers and no trailers.
func (s *Server) InProcess() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(s.calls.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(s.calls.stream)),
	}
}

// calls carries out requests of this process. It learns what serves them from the first request
// that comes by a connection, as the emulator does not show it.
type calls struct {
	guard   *guard
	serving atomic.Value // a btpb.BigtableServer
	over    chan struct{}
	unaries map[string]grpc.MethodDesc
	streams map[string]grpc.StreamDesc
}

func newCalls(g *guard) *calls {
	c := &calls{guard: g, over: make(chan struct{}), unaries: make(map[string]grpc.MethodDesc), streams: make(map[string]grpc.StreamDesc)}
	service := btpb.Bigtable_ServiceDesc
	for _, m := range service.Methods {
		c.unaries["/"+service.ServiceName+"/"+m.MethodName] = m
	}
	for _, m := range service.Streams {
		c.streams["/"+service.ServiceName+"/"+m.StreamName] = m
	}
	return c
}

// learn keeps what serves the requests of connections.
func (c *calls) learn(server any) {
	if _, ok := server.(btpb.BigtableServer); ok && c.serving.Load() == nil {
		c.serving.Store(server)
	}
}

// serverSide is the context of a request as the emulator sees it.
func serverSide(ctx context.Context) (context.Context, context.CancelFunc) {
	md, _ := metadata.FromOutgoingContext(ctx)
	return context.WithCancel(metadata.NewIncomingContext(ctx, md))
}

func (c *calls) closed() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// left is what a caller gets whose request has no answer.
func (c *calls) left(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return contextStatus(err)
	}
	return status.Error(codes.Unavailable, "the emulator is closed")
}

// answer is the outcome of a request with one answer.
type answer struct {
	message any
	err     error
}

func (c *calls) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	m, ok := c.unaries[method]
	server := c.serving.Load()
	if !ok || server == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	inside, cancel := serverSide(ctx)
	defer cancel()
	request := proto.Clone(req.(proto.Message)) // a caller that leaves may change its own
	done := make(chan answer, 1)
	if ctx.Err() == nil && !c.closed() {
		go func() {
			var a answer
			a.message, a.err = m.Handler(server, inside, func(to any) error { return handOver(to, request) }, c.guard.guarded)
			done <- a
		}()
	}
	select {
	case a := <-done:
		if a.err != nil {
			return status.Convert(a.err).Err()
		}
		return copyTo(reply, a.message)
	case <-ctx.Done():
	case <-c.over:
	}
	return c.left(ctx)
}

func copyTo(to, from any) error {
	proto.Merge(to.(proto.Message), from.(proto.Message))
	return nil
}

// handOver gives to, which is empty, what from consists of, and nobody else has.
func handOver(to, from any) error {
	fields, parts := to.(proto.Message).ProtoReflect(), from.(proto.Message).ProtoReflect()
	fields.SetUnknown(parts.GetUnknown())
	parts.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fields.Set(field, value)
		return true
	})
	return nil
}

// guarded is the interceptors of a connection's requests.
func (g *guard) guarded(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return recoverUnary(ctx, req, info, func(ctx context.Context, req any) (any, error) { return g.unary(ctx, req, info, handler) })
}

func (c *calls) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m, ok := c.streams[method]
	server := c.serving.Load()
	if !ok || server == nil || desc.ClientStreams {
		return open(ctx, desc, cc, method, opts...)
	}
	inside, cancel := serverSide(ctx)
	s := &stream{calls: c, ctx: ctx, inside: inside, answers: make(chan proto.Message, streamed), ended: make(chan struct{})}
	info := &grpc.StreamServerInfo{FullMethod: method, IsServerStream: true}
	s.serve = func() {
		defer cancel()
		defer close(s.ended)
		s.err = recoverStream(server, serverStream{s}, info, func(srv any, ss grpc.ServerStream) error {
			return c.guard.stream(srv, ss, info, m.Handler)
		})
	}
	return s, nil
}

// streamed is how many answers of a stream may be in flight: as a connection, it holds the emulator
// up when the reader does not read.
const streamed = 16

// stream is the client's side of a request with many answers.
type stream struct {
	calls   *calls
	ctx     context.Context
	inside  context.Context // of the server's side
	request proto.Message
	serve   func()
	answers chan proto.Message
	ended   chan struct{} // closed when err is the outcome
	err     error
}

// SendMsg implements grpc.ClientStream.
func (s *stream) SendMsg(m any) error {
	s.request = proto.Clone(m.(proto.Message))
	return nil
}

// CloseSend implements grpc.ClientStream: the request is complete.
func (s *stream) CloseSend() error {
	go s.serve()
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	if s.ctx.Err() != nil || s.calls.closed() {
		return s.calls.left(s.ctx)
	}
	select {
	case got := <-s.answers:
		return copyTo(m, got)
	case <-s.ended:
	case <-s.ctx.Done():
		return s.calls.left(s.ctx)
	case <-s.calls.over:
		return s.calls.left(s.ctx)
	}
	select {
	case got := <-s.answers:
		return copyTo(m, got)
	default:
	}
	if s.err == nil {
		return io.EOF
	}
	return status.Convert(s.err).Err()
}

// Context implements grpc.ClientStream.
func (s *stream) Context() context.Context { return s.ctx }

// Header implements grpc.ClientStream.
func (s *stream) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements grpc.ClientStream.
func (s *stream) Trailer() metadata.MD { return nil }

// serverStream is the emulator's side of a stream.
type serverStream struct{ *stream }

// RecvMsg implements grpc.ServerStream.
func (s serverStream) RecvMsg(m any) error {
	if s.request == nil {
		return io.EOF
	}
	request := s.request
	s.request = nil
	return handOver(m, request)
}

// SendMsg implements grpc.ServerStream.
func (s serverStream) SendMsg(m any) error {
	select {
	case s.answers <- m.(proto.Message): // which does not change any more
		return nil
	case <-s.inside.Done():
		return contextStatus(s.inside.Err())
	case <-s.calls.over:
		return s.calls.left(s.ctx)
	}
}

// Context implements grpc.ServerStream.
func (s serverStream) Context() context.Context { return s.inside }

// SetHeader implements grpc.ServerStream.
func (s serverStream) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerStream.
func (s serverStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerStream.
func (s serverStream) SetTrailer(metadata.MD) {}
