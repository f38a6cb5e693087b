//go:build unix

package tso

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// fireStore is Google's Bigtable emulator, in this process, with faults for the
// requests of some of its users. Users are told apart by their application profile.
type fireStore struct {
	address string

	mu     sync.Mutex
	rng    *rand.Rand
	faults map[string]storeFault

	writes atomic.Int64 // requests to write that met a fault
	late   sync.WaitGroup
}

// storeFault is what happens to the requests of a user.
type storeFault int

const (
	storeFine storeFault = iota
	storeDown            // everything fails and nothing is applied

	// storeLoses: a write is applied, and then its answer is lost, or it comes a
	// second time some time later; or it seems to fail, and comes later.
	storeLoses
)

// lateness bounds how late a write is that comes late: past the end of a lease.
const lateness = 1500 * time.Millisecond

func startFireStore(t *testing.T, rng *rand.Rand) *fireStore {
	t.Helper()
	f := &fireStore{rng: rng, faults: map[string]storeFault{}}
	server, err := bttest.NewServer("localhost:0", grpc.ChainUnaryInterceptor(f.unary), grpc.ChainStreamInterceptor(f.stream))
	if err != nil {
		t.Fatal(err)
	}
	f.address = server.Addr
	t.Cleanup(func() {
		f.late.Wait()
		server.Close()
	})
	conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(admin.CreateTable(ctx, BigtableTable), admin.CreateColumnFamily(ctx, BigtableTable, BigtableFamily)); err != nil {
		t.Fatal(err)
	}
	return f
}

// inject sets the fault of a user, "" for all that have none of their own.
func (f *fireStore) inject(user string, fault storeFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[user] = fault
}

func (f *fireStore) fault(user string) storeFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.faults[user]; fault != storeFine || user == observer {
		return fault
	}
	return f.faults[""]
}

// observer is the user that never meets faults.
const observer = "observer"

var errDown = status.Error(codes.Unavailable, "the store is down on purpose")

func (f *fireStore) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	var write interface{ GetAppProfileId() string }
	switch req := req.(type) {
	case *btpb.CheckAndMutateRowRequest:
		write = req
	case *btpb.MutateRowRequest:
		write = req
	default:
		return handler(ctx, req)
	}
	switch f.fault(write.GetAppProfileId()) {
	case storeDown:
		f.writes.Add(1)
		return nil, errDown
	case storeLoses:
		return f.lose(ctx, req, handler)
	}
	return handler(ctx, req)
}

// lose applies a write now, later, or both, and may lose the answer.
func (f *fireStore) lose(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	defer f.writes.Add(1)
	f.mu.Lock()
	kind, after := f.rng.IntN(3), time.Duration(f.rng.Int64N(int64(lateness)))
	f.mu.Unlock()
	again := func() {
		ctx := context.WithoutCancel(ctx)
		f.late.Add(1)
		time.AfterFunc(after, func() {
			defer f.late.Done()
			_, _ = handler(ctx, req)
		})
	}
	switch kind {
	case 0: // applied, answer lost
		if _, err := handler(ctx, req); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unknown, "the answer was lost on purpose")
	case 1: // applied twice
		resp, err := handler(ctx, req)
		again()
		return resp, err
	}
	again() // applied when nobody waits any more
	return nil, status.Error(codes.DeadlineExceeded, "late on purpose")
}

// stream lets reads of a user fail whose store is down.
func (f *fireStore) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(srv, &fireStream{ServerStream: ss, store: f})
}

type fireStream struct {
	grpc.ServerStream
	store *fireStore
}

func (s *fireStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if read, ok := m.(*btpb.ReadRowsRequest); ok && s.store.fault(read.GetAppProfileId()) == storeDown {
		return errDown
	}
	return nil
}
