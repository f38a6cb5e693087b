package store

import (
	"context"
	"os"
	"sync/atomic"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/gopercolator/percolator/internal/emulatorhost"
)

// Google's client hides where a request goes, that it is sent again, and how far a read has come
// that finds nothing. This client sees all that through an interceptor.

// Endpoint learns from the requests where they go: the options that name the address cannot be
// read, and a deadline does not say which address failed to answer.
type Endpoint struct{ target atomic.Pointer[string] }

// Option goes before the caller's options, whose interceptors may answer in place of the store.
func (e *Endpoint) Option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if e.target.Load() == nil { // once is enough: this is on the path of every read
			target := cc.Target()
			e.target.Store(&target)
		}
		a := AttemptsOf(ctx)
		if a == nil {
			return open(ctx, desc, cc, method, opts...)
		}
		return a.open(func() (grpc.ClientStream, error) { return open(ctx, desc, cc, method, opts...) })
	}))
}

// String is the address, or where it comes from while no request has been sent.
func (e *Endpoint) String() string {
	if t := e.target.Load(); t != nil {
		return *t
	}
	if host := os.Getenv(emulatorhost.Bigtable); host != "" {
		return emulatorhost.Bigtable + ", " + host
	}
	return "that of the client options, or Bigtable's default"
}

// Attempts watches how often Google's client sends one request, and what comes of it. The client
// repeats reads and unconditional mutations after a transient error for as long as their context
// lasts; a row that no server has at present then holds up everything that is sent with it.
type Attempts struct {
	n       atomic.Int64
	Again   func()           // called before each attempt but the first; nil: nothing
	applied func(row string) // called at once for each applied mutation; may be nil
	passed  func(key string) // called with the last key that ReadRows has passed over; nil: none
}

type attemptsKey struct{}

// Watch returns a context whose request a observes.
func (a *Attempts) Watch(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptsKey{}, a)
}

// AttemptsOf is the watcher of the request that is sent with ctx, or nil. It is for those
// who implement Backend and repeat requests themselves.
func AttemptsOf(ctx context.Context) *Attempts {
	a, _ := ctx.Value(attemptsKey{}).(*Attempts)
	return a
}

// Sent tells of an attempt that is about to be sent.
func (a *Attempts) Sent() {
	if a != nil && a.n.Add(1) > 1 && a.Again != nil {
		a.Again()
	}
}

// lost tells that the last attempt says nothing about its rows: no server has had it, or it was
// asked to come later. Telling it twice is as good.
func (a *Attempts) lost() {
	if a != nil {
		if n := a.n.Load(); n > 0 {
			a.n.CompareAndSwap(n, n-1)
		}
	}
}

// Applied tells of a mutation that MutateRows has applied, once the answer says so.
func (a *Attempts) Applied(row string) {
	if a != nil && a.applied != nil {
		a.applied(row)
	}
}

func (a *Attempts) open(open func() (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	a.Sent()
	stream, err := open()
	switch {
	case err != nil:
		return nil, err
	case a.applied != nil:
		return &mutationStream{ClientStream: stream, applied: a.applied}, nil
	case a.passed != nil:
		return &readStream{ClientStream: stream, passed: a.passed}, nil
	}
	return stream, nil
}

// readStream is one attempt of ReadRows. What the server says that it has passed over holds once
// the client has handed out the rows that came with it: when it asks for the next message.
type readStream struct {
	grpc.ClientStream
	passed func(key string)
	last   string
}

func (s *readStream) RecvMsg(m any) error {
	if s.last != "" {
		s.passed(s.last)
		s.last = ""
	}
	err := s.ClientStream.RecvMsg(m)
	if resp, ok := m.(*btpb.ReadRowsResponse); ok && err == nil {
		s.last = string(resp.LastScannedRowKey)
	}
	return err
}

// mutationStream is one attempt of MutateRows.
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
