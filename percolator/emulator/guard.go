package emulator

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// guard stands in front of the emulator's methods: see the package documentation for what it
// repairs.
type guard struct {
	limits  pageLimits
	holding func(*btpb.ReadRowsRequest)
	tables  tables
	admin   sync.Mutex // the emulator reads its map of tables without a lock in some admin calls

	names    map[string]struct{}     // full names of all tables; guarded by admin
	changes  sync.RWMutex            // held (read side) while something changes, taken before all other locks
	onChange func(table, row string) // called before each change
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch r := req.(type) {
	case *btpb.MutateRowRequest:
		return g.mutate(ctx, r.TableName, r.RowKey, req, handler)
	case *btpb.CheckAndMutateRowRequest:
		return g.mutate(ctx, r.TableName, r.RowKey, req, handler)
	case *btpb.ReadModifyWriteRowRequest:
		return g.mutate(ctx, r.TableName, r.RowKey, req, handler)
	}
	if !strings.HasPrefix(info.FullMethod, "/google.bigtable.admin.") {
		return handler(ctx, req)
	}
	return g.administer(ctx, req, handler)
}

func (g *guard) mutate(ctx context.Context, table string, row []byte, req any, handler grpc.UnaryHandler) (any, error) {
	defer g.change(table, row)()
	t, done := g.tables.use(table)
	defer done()
	t.Lock()
	defer t.Unlock()
	if err := ctx.Err(); err != nil { // the caller left while this waited for the locks: it was not applied, and is not now
		return nil, contextStatus(err)
	}
	return handler(ctx, req)
}

func (g *guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	bt, ok := srv.(btpb.BigtableServer)
	if !ok {
		return handler(srv, ss)
	}
	switch info.FullMethod {
	case btpb.Bigtable_ReadRows_FullMethodName:
		req := new(btpb.ReadRowsRequest)
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		return g.readRows(bt, ss, req)
	case btpb.Bigtable_MutateRows_FullMethodName:
		req := new(btpb.MutateRowsRequest)
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		return g.mutateRows(bt, ss, req)
	case btpb.Bigtable_SampleRowKeys_FullMethodName:
		req := new(btpb.SampleRowKeysRequest)
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		return sampleRowKeys(bt, ss, req)
	}
	return handler(srv, ss)
}

func (g *guard) mutateRows(bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.MutateRowsRequest) error {
	answers := &buffer[btpb.MutateRowsResponse]{ServerStream: ss}
	if err := g.applyRows(bt, answers, req); err != nil {
		return err
	}
	return answers.flush()
}

func (g *guard) applyRows(bt btpb.BigtableServer, answers *buffer[btpb.MutateRowsResponse], req *btpb.MutateRowsRequest) error {
	var first []byte
	if len(req.Entries) > 0 {
		first = req.Entries[0].RowKey
	}
	defer g.change(req.TableName, first)()
	t, done := g.tables.use(req.TableName)
	defer done()
	t.Lock()
	defer t.Unlock()
	if err := answers.Context().Err(); err != nil {
		return contextStatus(err)
	}
	return bt.MutateRows(req, answers)
}

// sampleRowKeys needs no lock of ours (it looks at no column names), but the emulator holds its own
// while it sends.
func sampleRowKeys(bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.SampleRowKeysRequest) error {
	samples := &buffer[btpb.SampleRowKeysResponse]{ServerStream: ss}
	if err := bt.SampleRowKeys(req, samples); err != nil {
		return err
	}
	return samples.flush()
}

// buffer is a server stream that keeps what is sent until flush.
type buffer[T any] struct {
	grpc.ServerStream
	messages []*T
}

func (b *buffer[T]) Send(m *T) error {
	b.messages = append(b.messages, m)
	return nil
}

func (b *buffer[T]) flush() error {
	for _, m := range b.messages {
		if err := b.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

func recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer recoverAs(&err, info.FullMethod)
	return handler(ctx, req)
}

func recoverStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recoverAs(&err, info.FullMethod)
	return handler(srv, ss)
}

// recoverAs turns a panic of the emulator into *err. The emulator inherits the methods that it
// lacks from a nil interface; calling one is a runtime error.
func recoverAs(err *error, method string) {
	switch p := recover().(type) {
	case nil:
	case runtime.Error:
		*err = status.Errorf(codes.Unimplemented, "the emulator cannot handle this %s: %v", method, p)
	default:
		*err = status.Error(codes.Internal, fmt.Sprintf("the emulator failed in %s: %v", method, p))
	}
}

// contextStatus is the answer to a caller who has left.
func contextStatus(err error) error { return status.FromContextError(err).Err() }
