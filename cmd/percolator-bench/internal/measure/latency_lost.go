package measure

import (
	"context"
	"io"
	"strings"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// losePhaseTwo makes a client's MutateRows vanish, while the client is told that all is well. What its transactions leave in the
// store is what is there when a client dies right after the commit point: the primary's record, and the locks of all other rows.
// The client itself need not be killed for it, and tries nothing again.
func losePhaseTwo() []option.ClientOption {
	return intercepted(nil,
		func(ctx context.Context, desc *grpc.StreamDesc,
			conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			if !strings.HasSuffix(method, "/MutateRows") {
				return open(ctx, desc, conn, method, opts...)
			}
			return &lostMutateRows{ctx: ctx}, nil
		})
}

// lostMutateRows answers a request that nobody gets.
type lostMutateRows struct {
	ctx    context.Context
	answer *btpb.MutateRowsResponse
}

// SendMsg implements grpc.ClientStream.
func (s *lostMutateRows) SendMsg(req any) error {
	s.answer = &btpb.MutateRowsResponse{}
	for i := range req.(*btpb.MutateRowsRequest).Entries {
		s.answer.Entries = append(s.answer.Entries, &btpb.MutateRowsResponse_Entry{Index: int64(i)})
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *lostMutateRows) RecvMsg(resp any) error {
	if s.answer == nil {
		return io.EOF
	}
	resp.(*btpb.MutateRowsResponse).Entries = s.answer.Entries
	s.answer = nil
	return nil
}

// CloseSend implements grpc.ClientStream.
func (s *lostMutateRows) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (s *lostMutateRows) Context() context.Context { return s.ctx }

// Header implements grpc.ClientStream.
func (s *lostMutateRows) Header() (metadata.MD, error) { return metadata.MD{}, nil }

// Trailer implements grpc.ClientStream.
func (s *lostMutateRows) Trailer() metadata.MD { return metadata.MD{} }
