package store

import (
	"context"
	"os"
	"sync/atomic"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// What Google's client does with a request on its way, this client sees through an interceptor:
// where it goes, and that it is sent again.

// Endpoint learns from the requests where they go: the options that name it cannot be read, and a
// deadline does not say which address did not answer.
type Endpoint struct{ target atomic.Pointer[string] }

// Option goes before the options of the caller, whose interceptors may answer in the place of the
// store.
func (e *Endpoint) Option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if e.target.Load() == nil { // once is enough: this is on the path of every read
			target := cc.Target()
			e.target.Store(&target)
		}
		w, _ := ctx.Value(attemptsKey{}).(*Attempts)
		if w == nil {
			return open(ctx, desc, cc, method, opts...)
		}
		return w.open(func() (grpc.ClientStream, error) { return open(ctx, desc, cc, method, opts...) })
	}))
}

func (e *Endpoint) String() string {
	if t := e.target.Load(); t != nil {
		return *t
	}
	if host := os.Getenv("BIGTABLE_EMULATOR_HOST"); host != "" {
		return "BIGTABLE_EMULATOR_HOST, " + host
	}
	return "that of the client options, or Bigtable's default"
}

// Attempts watches how often Google's client sends one request, and what comes of it. It sends
// reads and unconditional mutations again after an error that may pass, for as long as their
// context lasts; a row that no server has at present then holds up everything that travels with it.
type Attempts struct {
	n       atomic.Int64
	Again   func()           // called before each sending but the first
	applied func(row string) // called for each mutation of MutateRows that was applied, as soon as that is known; nil: nobody wants to know
}

type attemptsKey struct{}

// Watch makes the client tell s of the sendings of the request that has this context.
func (s *Attempts) Watch(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptsKey{}, s)
}

func (s *Attempts) open(open func() (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if s.n.Add(1) > 1 {
		s.Again()
	}
	stream, err := open()
	if err != nil || s.applied == nil {
		return stream, err
	}
	return &mutationStream{ClientStream: stream, applied: s.applied}, nil
}

// mutationStream is one sending of MutateRows.
type mutationStream struct {
	grpc.ClientStream
	applied func(row string)
	entries []*btpb.MutateRowsRequest_Entry
}

func (s *mutationStream) SendMsg(m any) error {
	if req, ok := m.(*btpb.MutateRowsRequest); ok {
		s.entries = req.Entries
	}
	return s.ClientStream.SendMsg(m)
}

func (s *mutationStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if resp, ok := m.(*btpb.MutateRowsResponse); ok {
		for _, e := range resp.Entries {
			if e.Status != nil && e.Status.Code == int32(codes.OK) && e.Index >= 0 && e.Index < int64(len(s.entries)) {
				s.applied(string(s.entries[e.Index].RowKey))
			}
		}
	}
	return nil
}
