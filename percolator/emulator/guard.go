package emulator

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// guard intercepts the emulator's methods; the package documentation says what it repairs.
type guard struct {
	rules     rules
	disks     *Disks              // nil: reading costs nothing
	processor *Processor          // nil: nor does anything else
	full      atomic.Bool         // the storage is
	judge     func(Request) error // nil: judges nothing
	pages     pageLimits
	holding   func(*btpb.ReadRowsRequest)
	tables    tables
	calls     *calls     // learns what serves requests
	admin     sync.Mutex // the emulator reads its map of tables without a lock in some admin calls

	names    map[string]map[string]struct{} // by instance, the full names of its tables; guarded by admin
	changes  sync.RWMutex                   // read-locked during changes, before all other locks
	onChange func(table, row string)        // called before each change
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	g.calls.learn(info.Server)
	if err := g.check(ctx, info.FullMethod, req); err != nil {
		return nil, err
	}
	if strings.HasPrefix(info.FullMethod, "/google.bigtable.admin.") {
		return g.administer(ctx, info.Server, req, handler)
	}
	if ping, ok := req.(*btpb.PingAndWarmRequest); ok {
		if err := g.checkPing(ping); err != nil {
			return nil, err
		}
	}
	r, ok := req.(rowMutation)
	if !ok {
		return handler(ctx, req)
	}
	t, done := g.tables.use(r.GetTableName())
	defer done()
	families := g.familiesOf(ctx, info.Server, r.GetTableName(), t)
	if err := checkFamilies(families, req); err != nil {
		return nil, err
	}
	leave, err := t.admit(mutationsOf(r), g.rules.limits.outstanding)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := g.disks.mutate(ctx, r.GetTableName(), r.GetRowKey()); err != nil {
		return nil, err
	}
	err = g.mutate(ctx, t, r.GetTableName(), r.GetRowKey(), func() error {
		if families != nil {
			if err := g.grow(info.Server, t, r.GetTableName(), r.GetRowKey(), addedBy(r), nothing); err != nil {
				return err
			}
		}
		resp, err = handler(ctx, req)
		return err
	})
	return resp, err
}

// check refuses what is not carried out whatever is stored, and waits for the processor.
func (g *guard) check(ctx context.Context, method string, req any) error {
	if err := g.ask(method, req); err != nil {
		return err
	}
	if err := g.rules.check(ctx, req); err != nil {
		return err
	}
	if err := g.checkFull(req); err != nil {
		return err
	}
	return g.processor.serve(ctx, req)
}

// mutate applies mutations of a table, the first of them of the row, under the table's lock.
func (g *guard) mutate(ctx context.Context, t *table, name string, row []byte, apply func() error) error {
	defer g.change(name, row)()
	t.Lock()
	defer t.Unlock()
	// Apply nothing if the caller left during the wait for the locks.
	if err := ctx.Err(); err != nil {
		return contextStatus(err)
	}
	return apply()
}

func (g *guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	bt, ok := srv.(btpb.BigtableServer)
	if !ok {
		return handler(srv, ss)
	}
	switch info.FullMethod {
	case btpb.Bigtable_ReadRows_FullMethodName:
		return serve(g, bt, ss, info.FullMethod, g.readRows)
	case btpb.Bigtable_MutateRows_FullMethodName:
		return serve(g, bt, ss, info.FullMethod, g.mutateRows)
	case btpb.Bigtable_SampleRowKeys_FullMethodName:
		return serve(g, bt, ss, info.FullMethod, g.sampleRowKeys)
	}
	return handler(srv, ss)
}

// serve receives the one request of a stream, and answers it.
func serve[T any](g *guard, bt btpb.BigtableServer, ss grpc.ServerStream, method string, answer func(btpb.BigtableServer, grpc.ServerStream, *T) error) error {
	req := new(T)
	if err := ss.RecvMsg(req); err != nil {
		return err
	}
	if err := g.check(ss.Context(), method, req); err != nil {
		return err
	}
	return answer(bt, ss, req)
}

// sampleRowKeys needs no table lock, as it reads no column names, but the emulator holds its own
// lock while it sends.
func (g *guard) sampleRowKeys(bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.SampleRowKeysRequest) error {
	samples := &buffer[btpb.SampleRowKeysResponse]{ServerStream: ss}
	if err := bt.SampleRowKeys(req, samples); err != nil {
		return err
	}
	if g.disks != nil {
		return g.disks.sampleRowKeys(ss, req)
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
