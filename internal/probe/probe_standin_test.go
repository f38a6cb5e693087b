package probe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/tso"
)

// A wrong stand-in is the strict one behind interceptors that change requests or answers.

func unary(f grpc.UnaryClientInterceptor) []option.ClientOption {
	return []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(f))}
}

// edited is a stream whose messages are changed.
type edited struct {
	grpc.ClientStream
	send func(msg any)
	recv func(msg any) (again bool) // again: not this one
}

func (e *edited) SendMsg(msg any) error {
	if e.send != nil {
		e.send(msg)
	}
	return e.ClientStream.SendMsg(msg)
}

func (e *edited) RecvMsg(msg any) error {
	for {
		proto.Reset(msg.(proto.Message))
		if err := e.ClientStream.RecvMsg(msg); err != nil || e.recv == nil || !e.recv(msg) {
			return err
		}
	}
}

func stream(send func(msg any), recv func(msg any) bool) []option.ClientOption {
	return []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &edited{s, send, recv}, nil
		}))}
}

// counter counts what arrives at the stand-in.
type counter struct{ n, endless atomic.Int64 }

func (c *counter) see(ctx context.Context) {
	c.n.Add(1)
	if _, ok := ctx.Deadline(); !ok {
		c.endless.Add(1)
	}
}

func (c *counter) options() []option.ClientOption {
	count := unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		c.see(ctx)
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	return append(count, option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			c.see(ctx)
			return open(ctx, desc, cc, method, opts...)
		})))
}

// requests changes requests of every kind before they are served.
func requests(change func(req any)) []option.ClientOption {
	return append(unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		req = proto.Clone(req.(proto.Message))
		change(req)
		return invoke(ctx, method, req, reply, cc, opts...)
	}), stream(change, nil)...)
}

// filters changes every filter, the innermost first.
func filters(change func(f *btpb.RowFilter)) []option.ClientOption {
	var walk func(f *btpb.RowFilter)
	walk = func(f *btpb.RowFilter) {
		for _, g := range append(f.GetChain().GetFilters(), f.GetInterleave().GetFilters()...) {
			walk(g)
		}
		if f != nil {
			change(f)
		}
	}
	return requests(func(req any) {
		switch r := req.(type) {
		case *btpb.ReadRowsRequest:
			walk(r.Filter)
		case *btpb.CheckAndMutateRowRequest:
			walk(r.PredicateFilter)
		}
	})
}

// mutations changes the mutations of each row; a nil one is left out.
func mutations(change func(row string, m *btpb.Mutation) *btpb.Mutation) []option.ClientOption {
	all := func(row []byte, list []*btpb.Mutation) []*btpb.Mutation {
		var out []*btpb.Mutation
		for _, m := range list {
			if m = change(string(row), m); m != nil {
				out = append(out, m)
			}
		}
		if len(out) == 0 && len(list) > 0 {
			out = append(out, harmless())
		}
		return out
	}
	return requests(func(req any) {
		switch r := req.(type) {
		case *btpb.MutateRowRequest:
			r.Mutations = all(r.RowKey, r.Mutations)
		case *btpb.MutateRowsRequest:
			for _, e := range r.Entries {
				e.Mutations = all(e.RowKey, e.Mutations)
			}
		case *btpb.CheckAndMutateRowRequest:
			r.TrueMutations, r.FalseMutations = all(r.RowKey, r.TrueMutations), all(r.RowKey, r.FalseMutations)
		}
	})
}

// harmless is a mutation that changes nothing.
func harmless() *btpb.Mutation {
	return &btpb.Mutation{Mutation: &btpb.Mutation_DeleteFromColumn_{DeleteFromColumn: &btpb.Mutation_DeleteFromColumn{FamilyName: "meta", ColumnQualifier: []byte("none")}}}
}

// answer is unary for one kind of request. served: the answer is what answer has made.
func answer[Req any](f func(req Req, reply any) (served bool, err error)) []option.ClientOption {
	return unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(Req); ok {
			if served, err := f(r, reply); served || err != nil {
				return err
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
}

// readThenWrite is conditional mutations that are not atomic.
func readThenWrite(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r, ok := req.(*btpb.CheckAndMutateRowRequest)
	if !ok || len(r.TrueMutations) > 0 {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	look := proto.CloneOf(r)
	look.FalseMutations = []*btpb.Mutation{harmless()}
	if err := invoke(ctx, method, look, reply, cc, opts...); err != nil || reply.(*btpb.CheckAndMutateRowResponse).PredicateMatched {
		return err
	}
	return invoke(ctx, btpb.Bigtable_MutateRow_FullMethodName, &btpb.MutateRowRequest{TableName: r.TableName, RowKey: r.RowKey, Mutations: r.FalseMutations},
		new(btpb.MutateRowResponse), cc, opts...)
}

// inHalves is MutateRow that is not atomic: a read, if any comes, is served in the middle.
func inHalves() []option.ClientOption {
	const longest = 100 * time.Millisecond // of waiting for one
	read := make(chan struct{})
	write := unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		r, ok := req.(*btpb.MutateRowRequest)
		if !ok || string(r.RowKey) != "torn-reads" {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		half := proto.CloneOf(r)
		half.Mutations = half.Mutations[:len(half.Mutations)/2]
		if err := invoke(ctx, method, half, reply, cc, opts...); err != nil {
			return err
		}
		select {
		case <-read:
		case <-time.After(longest):
		}
		half.Mutations = r.Mutations[len(half.Mutations):]
		return invoke(ctx, method, half, reply, cc, opts...)
	})
	return append(write, stream(nil, func(msg any) bool {
		if _, ok := msg.(*btpb.ReadRowsResponse); ok {
			select {
			case read <- struct{}{}:
			default:
			}
		}
		return false
	})...)
}

// buried keeps erased versions erased, whatever is written later.
func buried() []option.ClientOption {
	type version struct {
		row, family, column string
		ts                  int64
	}
	var mu sync.Mutex
	graves := map[version]bool{}
	return mutations(func(row string, m *btpb.Mutation) *btpb.Mutation {
		mu.Lock()
		defer mu.Unlock()
		if e := m.GetDeleteFromColumn(); e.GetTimeRange() != nil {
			graves[version{row, e.FamilyName, string(e.ColumnQualifier), e.TimeRange.StartTimestampMicros}] = true
		}
		if s := m.GetSetCell(); s != nil && graves[version{row, s.FamilyName, string(s.ColumnQualifier), s.TimestampMicros}] {
			return nil
		}
		return m
	})
}

// clock is one that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

type oracleFunc func(ctx context.Context) (tso.Timestamp, error)

func (f oracleFunc) Next(ctx context.Context) (tso.Timestamp, error) { return f(ctx) }

// changed is an oracle whose n-th timestamp is changed.
func changed(o tso.Oracle, change func(n int64, ts tso.Timestamp) tso.Timestamp) tso.Oracle {
	var n atomic.Int64
	return oracleFunc(func(ctx context.Context) (tso.Timestamp, error) {
		ts, err := o.Next(ctx)
		return change(n.Add(1), ts), err
	})
}
