package probe

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Cost is what is sent to Bigtable.
type Cost struct {
	Requests int   `json:"requests"`         // each attempt counts, also of administration
	Bytes    int64 `json:"bytes"`            // of requests
	Tables   int   `json:"tables,omitempty"` // that are created; in what a run may cost
}

func (c Cost) plus(d Cost) Cost {
	return Cost{c.Requests + d.Requests, c.Bytes + d.Bytes, c.Tables + d.Tables}
}

// meter counts what all clients of a probe send, and refuses what exceeds the allowance.
type meter struct {
	mu            sync.Mutex
	allowed       Cost
	sent, earlier Cost // of this line, and before it
	refused       bool
}

// allow begins a line.
func (m *meter) allow(c Cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.earlier, m.sent, m.allowed, m.refused = m.earlier.plus(m.sent), Cost{}, c, false
}

// line is what this line has sent, and whether it was refused more.
func (m *meter) line() (sent Cost, refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent, m.refused
}

// total is what all lines have sent.
func (m *meter) total() Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.earlier.plus(m.sent)
}

// errExhausted is no error that Google's client repeats.
var errExhausted = status.Error(codes.OutOfRange, "the requests or bytes that it had announced are used up")

// spend counts a request, or some of its bytes.
func (m *meter) spend(requests int, msg any) error {
	size := int64(0)
	if msg, ok := msg.(proto.Message); ok {
		size = int64(proto.Size(msg))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sent.Requests+requests > m.allowed.Requests || m.sent.Bytes+size > m.allowed.Bytes {
		m.refused = true
		return errExhausted
	}
	m.sent.Requests += requests
	m.sent.Bytes += size
	return nil
}

// options go before the caller's, whose interceptors may stand for a store.
func (m *meter) options() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := m.spend(1, req); err != nil {
				return fmt.Errorf("%s: %w", method, err)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if err := m.spend(1, nil); err != nil {
				return nil, err
			}
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &metered{s, m}, nil
		})),
	}
}

// metered is a request whose bytes are counted.
type metered struct {
	grpc.ClientStream
	meter *meter
}

// SendMsg implements grpc.ClientStream.
func (s *metered) SendMsg(msg any) error {
	if err := s.meter.spend(0, msg); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(msg)
}
