package tso

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

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
	calls   *serve.Quota
	started func(ctx context.Context) // is told of each call
}

func newArrivals(most, share int, started func(context.Context)) arrivals {
	return arrivals{serve.NewSharedQuota(min(most, maxArriving), share), started}
}

// arrivedKey is the key of the function that ends the time of a call's arrival.
type arrivedKey struct{}

// begin is called with the headers of each call ([grpc.InTapHandle]). It returns no error: gRPC
// would keep the timer of the call's deadline until it ends.
func (a arrivals) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	a.started(ctx)
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

// Bounds of answers that are not written yet. gRPC is done with a call when its answer is queued,
// and keeps the answer until the peer gives its stream a window: for ever, if it gives none.
// It drops the answer to a call that is cancelled at that moment, and does not say so: the server
// then closes a connection whose peer reads, and the client dials again.
const (
	maxUnread      = 10 * time.Second // then the server closes the connection
	maxUnreadBytes = 8 << 20          // in answers above smallAnswer; the calls bound the others

	// smallAnswer is more than mem.NewBuffer treats as too small to tell when it is written.
	smallAnswer = 2 << 10
)

var (
	// answerBuffers has no buffer that is much larger than the answer in it. The next size of
	// gRPC's own pool above 32 kB is 1 MB.
	answerBuffers = mem.NewTieredBufferPool(smallAnswer, 8<<10, 32<<10, maxSessionsBytes)

	errTooMuchUnread = status.Error(codes.ResourceExhausted, "too many answers that are not read")
)

// answers counts calls until their answers are written, and the bytes of these.
type answers struct {
	calls callCap
	bytes *serve.Quota
	close func(net.Addr) // closes the connection of that peer
}

func newAnswers(calls callCap, share int, closeConn func(net.Addr)) answers {
	return answers{calls, serve.NewSharedQuota(maxUnreadBytes, share), closeConn}
}

// unary is an interceptor. Its answers are for answerCodec.
func (a answers) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	calls, peer := a.calls.of(info), peerOf(ctx)
	if !calls.Take(peer, 1) {
		return nil, errTooManyCalls
	}
	end := func() { calls.Release(peer, 1) }
	resp, err := handle(ctx, req)
	if err != nil {
		end()
		return nil, err
	}
	out, err := a.encode(ctx, resp, end)
	if err != nil { // no answer in an interface
		return nil, err
	}
	return out, nil
}

// stream is an interceptor.
func (a answers) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	peer := peerOf(stream.Context())
	if !a.calls.streams.Take(peer, 1) {
		return errTooManyCalls
	}
	s := &answeringStream{ServerStream: stream, answers: a, free: func() { a.calls.streams.Release(peer, 1) }}
	s.left.Store(1)
	defer s.end()
	return handle(srv, s)
}

// answeringStream counts until its handler has returned and all that it has sent is written.
type answeringStream struct {
	grpc.ServerStream
	answers answers
	left    atomic.Int32 // the handler, and each message
	free    func()
}

func (s *answeringStream) end() {
	if s.left.Add(-1) == 0 {
		s.free()
	}
}

// SendMsg implements [grpc.ServerStream].
func (s *answeringStream) SendMsg(m any) error {
	s.left.Add(1)
	out, err := s.answers.encode(s.Context(), m, s.end)
	if err != nil {
		return err
	}
	return s.ServerStream.SendMsg(out)
}

// encode returns the answer to be sent. It calls end when it is written or given up, or has failed.
func (a answers) encode(ctx context.Context, resp any, end func()) (*answer, error) {
	msg, ok := resp.(proto.Message)
	if !ok {
		end()
		return nil, status.Errorf(codes.Internal, "the answer is a %T, not a message", resp)
	}
	buf := answerBuffers.Get(max(proto.Size(msg), 1))
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], msg)
	size, peer := cap(data), peerOf(ctx)
	if size <= smallAnswer {
		size = 0
	}
	switch {
	case err != nil:
		err = status.Errorf(codes.Internal, "encoding the answer: %v", err)
	case !a.bytes.Take(peer, size):
		err = errTooMuchUnread
	}
	if err != nil {
		answerBuffers.Put(buf)
		end()
		return nil, err
	}
	*buf = data
	// Compressed, it would be another buffer that waits. Without a stream nothing is sent.
	_ = grpc.SetSendCompressor(ctx, encoding.Identity)
	out := &answer{buf: buf, written: sync.OnceFunc(func() {
		a.bytes.Release(peer, size)
		end()
	})}
	out.late = time.AfterFunc(maxUnread, func() {
		if p, ok := grpcpeer.FromContext(ctx); ok {
			a.close(p.Addr)
		}
		out.written() // gRPC forgets what it has kept for a connection that is closed
	})
	return out, nil
}

// answer is an encoded answer. It is the pool that gRPC returns its buffer to: when all of it is
// written, or its stream has ended.
type answer struct {
	buf     *[]byte
	written func()
	late    *time.Timer
}

// Get implements [mem.BufferPool].
func (w *answer) Get(length int) *[]byte { return answerBuffers.Get(length) }

// Put implements [mem.BufferPool].
func (w *answer) Put(buf *[]byte) {
	w.late.Stop()
	w.written()
	answerBuffers.Put(buf)
}

// answerCodec is gRPC's codec for protobuf, and sends an answer as it is.
type answerCodec struct{ encoding.CodecV2 }

func newAnswerCodec() answerCodec { return answerCodec{encoding.GetCodecV2(protocodec.Name)} }

// Marshal implements [encoding.CodecV2].
func (c answerCodec) Marshal(v any) (mem.BufferSlice, error) {
	if w, ok := v.(*answer); ok {
		return mem.BufferSlice{mem.NewBuffer(w.buf, w)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// peerOf names the peer that ctx's call comes from, for its share of what there is: by its identity
// if it has proven one, otherwise by its address. "": a caller in this process.
func peerOf(ctx context.Context) string {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return ""
	}
	if identity := identityOf(p.AuthInfo); identity != "" {
		return identity
	}
	return serve.Host(p.Addr)
}

// identityOf returns who the peer has proven to be, "" without a verified certificate or ALTS. It
// stays when a certificate is replaced by another for the same name.
func identityOf(info credentials.AuthInfo) string {
	switch info := info.(type) {
	case credentials.TLSInfo:
		if len(info.State.VerifiedChains) == 0 {
			return ""
		}
		cert := info.State.VerifiedChains[0][0]
		switch {
		case len(cert.URIs) > 0: // as of SPIFFE
			return "uri:" + cert.URIs[0].String()
		case len(cert.DNSNames) > 0:
			return "dns:" + cert.DNSNames[0]
		case len(cert.EmailAddresses) > 0:
			return "email:" + cert.EmailAddresses[0]
		case len(cert.IPAddresses) > 0:
			return "ip:" + cert.IPAddresses[0].String()
		}
		return "subject:" + string(cert.RawSubject)
	case interface{ PeerServiceAccount() string }: // ALTS
		if account := info.PeerServiceAccount(); account != "" {
			return "account:" + account
		}
	}
	return ""
}
