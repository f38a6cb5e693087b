package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	project  = "p"
	instance = "i"
)

func fullName(table string) string {
	return fmt.Sprintf("projects/%s/instances/%s/tables/%s", project, instance, table)
}

func start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dial connects to an emulator with the bare protocol.
func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func createTable(t testing.TB, opts []option.ClientOption, table string, families ...string) {
	t.Helper()
	ctx := testContext(t)
	admin, err := bigtable.NewAdminClient(ctx, project, instance, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if err := admin.CreateTable(ctx, table); err != nil {
		t.Fatal(err)
	}
	for _, f := range families { // one by one: a row's cells come in the order in which the families were created
		if err := admin.CreateColumnFamily(ctx, table, f); err != nil {
			t.Fatal(err)
		}
	}
}

func openClient(t testing.TB, opts []option.ClientOption) *bigtable.Client {
	t.Helper()
	cfg := bigtable.ClientConfig{
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableSession:      true,
		DisableDirectAccess: true,
	}
	c, err := bigtable.NewClientWithConfig(testContext(t), project, instance, cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func fill(t testing.TB, tbl *bigtable.Table, rows int, value []byte) {
	t.Helper()
	const bulk = 5000
	for i := 0; i < rows; i += bulk {
		var keys []string
		var muts []*bigtable.Mutation
		for j := i; j < min(i+bulk, rows); j++ {
			m := bigtable.NewMutation()
			m.Set("f", "c", 1000, value)
			keys, muts = append(keys, rowKey(j)), append(muts, m)
		}
		if _, err := tbl.ApplyBulk(testContext(t), keys, muts); err != nil {
			t.Fatal(err)
		}
	}
}

func rowKey(i int) string { return fmt.Sprintf("row-%08d", i) }

func TestOptionsServeManyClients(t *testing.T) {
	t.Parallel()
	s := start(t)
	opts := s.ClientOptions()
	createTable(t, opts, "t", "f")
	first, second := openClient(t, opts), openClient(t, opts)
	fill(t, first.Open("t"), 1, []byte("v"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	row, err := second.Open("t").ReadRow(testContext(t), rowKey(0))
	if err != nil || len(row["f"]) != 1 {
		t.Fatalf("read %v, %v, want one cell", row, err)
	}
}

func TestOptionsWinOverEnvironment(t *testing.T) {
	t.Setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1")
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	fill(t, openClient(t, s.ClientOptions()).Open("t"), 1, []byte("v"))
}

func TestAddressInUseIsNamed(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := free.Addr().String()
	if s, err := Start(Address(taken)); err == nil {
		_ = s.Close()
		t.Fatalf("Start on an address in use succeeded")
	} else if !strings.Contains(err.Error(), taken) {
		t.Errorf("error %q does not name the address", err)
	}
	_ = free.Close()
	s := start(t, Address(taken))
	if s.Addr() != taken {
		t.Errorf("Addr() = %s, want %s", s.Addr(), taken)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestLargeMessages(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	value := make([]byte, 20<<20)
	fill(t, tbl, 1, value)
	row, err := tbl.ReadRow(testContext(t), rowKey(0))
	if err != nil || len(row["f"]) != 1 || len(row["f"][0].Value) != len(value) {
		t.Fatalf("20 MiB did not come back: %v", err)
	}
}

// A call that the emulator inherits from a nil interface ends in an answer, and the next call is
// served.
func TestMissingMethodIsUnimplemented(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx := testContext(t)
	conn := dial(t, s.Addr())
	tables := btapb.NewBigtableTableAdminClient(conn)
	_, err := tables.CreateBackup(ctx, &btapb.CreateBackupRequest{Parent: "projects/p/instances/i/clusters/c", BackupId: "b"})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("CreateBackup: %v, want Unimplemented", err)
	}
	stream, err := btpb.NewBigtableClient(conn).GenerateInitialChangeStreamPartitions(ctx,
		&btpb.GenerateInitialChangeStreamPartitionsRequest{TableName: fullName("t")})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("GenerateInitialChangeStreamPartitions: %v, want Unimplemented", err)
	}
	createTable(t, s.ClientOptions(), "t", "f")
}

func TestOtherPanicIsInternal(t *testing.T) {
	t.Parallel()
	info := &grpc.UnaryServerInfo{FullMethod: "/s/M"}
	_, err := recoverUnary(t.Context(), nil, info, func(context.Context, any) (any, error) { panic("boom") })
	if status.Code(err) != codes.Internal {
		t.Errorf("error %v, want Internal", err)
	}
	want := errors.New("as it was")
	_, err = recoverUnary(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, want })
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
