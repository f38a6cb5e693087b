package layertest

import (
	"context"
	"errors"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// Request is the request that a conditional mutation becomes, which is not sent.
func Request(t testing.TB, predicate store.Query, onMatch *store.Mutation) (seen *btpb.CheckAndMutateRowRequest) {
	t.Helper()
	see := func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		switch m := req.(type) {
		case *btpb.CheckAndMutateRowRequest:
			seen = m
		case *btpb.PingAndWarmRequest: // a connection is made
			return nil
		}
		return errors.New("seen")
	}
	opts := append(emulator.Connect("127.0.0.1:1"), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(see)))
	backend, err := store.Connect(t.Context(), "p", "i", "", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	if _, err := backend.CheckAndMutate(t.Context(), "none", "r", predicate, onMatch, nil); err == nil || seen == nil {
		t.Fatalf("no request was seen: %v", err)
	}
	return seen
}

// PredicateBytes is the encoded size of a predicate, as a request carries it.
func PredicateBytes(t testing.TB, q store.Query) int {
	t.Helper()
	mut := store.NewMutation(1)
	mut.EraseRow()
	return proto.Size(Request(t, q, mut).PredicateFilter)
}
