package tso

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/serve"
)

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
