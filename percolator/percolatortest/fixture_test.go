package percolatortest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator/emulator"
)

// bench is a plain Bigtable table with two ways to it: one through faults, and one that shows what
// was applied.
type bench struct {
	faults    *Faults
	table     *bigtable.Table // through the faults
	plain     *bigtable.Table
	delivered atomic.Int64 // requests that left through the faults
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx := testContext(t)
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", s.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	conf := bigtable.TableConf{TableID: "t", Families: map[string]bigtable.GCPolicy{"lock": bigtable.NoGcPolicy(), "write": bigtable.NoGcPolicy()}}
	if err := admin.CreateTableFromConf(ctx, &conf); err != nil {
		t.Fatal(err)
	}
	b := &bench{faults: newFaults("c")}
	counting := []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if _, ping := req.(*btpb.PingAndWarmRequest); !ping {
				b.delivered.Add(1)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			b.delivered.Add(1)
			return open(ctx, desc, cc, method, opts...)
		})),
	}
	open := func(opts ...option.ClientOption) *bigtable.Table {
		c, err := bigtable.NewClientWithConfig(ctx, "p", "i", bigtable.ClientConfig{
			MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true, DisableDirectAccess: true,
		}, append(s.ClientOptions(), opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.Open("t")
	}
	b.plain = open()
	b.table = open(append(b.faults.options(), counting...)...)
	t.Cleanup(b.faults.end)
	return b
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func set(value string) *bigtable.Mutation {
	m := bigtable.NewMutation()
	m.Set("lock", "c", 1000, []byte(value))
	return m
}

// checkAndSet is a CheckAndMutateRow, which Google's client never repeats.
func (b *bench) checkAndSet(ctx context.Context, row, value string) error {
	return b.table.Apply(ctx, row, bigtable.NewCondMutation(bigtable.PassAllFilter(), set(value), set(value)))
}

// add appends a byte: it shows how often it was applied.
func (b *bench) add(ctx context.Context, row string) (string, error) {
	rmw := bigtable.NewReadModifyWrite()
	rmw.AppendValue("lock", "c", []byte("+"))
	r, err := b.table.ApplyReadModifyWrite(ctx, row, rmw)
	return value(r), err
}

func value(r bigtable.Row) string {
	if len(r["lock"]) == 0 {
		return ""
	}
	return string(r["lock"][0].Value)
}

func (b *bench) wantStored(t *testing.T, row, want string) {
	t.Helper()
	r, err := b.plain.ReadRow(testContext(t), row)
	if err != nil {
		t.Fatal(err)
	}
	if got := value(r); got != want {
		t.Errorf("row %q holds %q, want %q", row, got, want)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("error %v, want code %v", err, want)
	}
}

// first does a with the first request and lets the others pass.
func first(a Action) func(Request) Action {
	return func(r Request) Action {
		if r.Seq == 1 {
			return a
		}
		return Pass
	}
}

func always(a Action) func(Request) Action { return func(Request) Action { return a } }
