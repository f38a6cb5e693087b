package emulator

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// inProcess is options of a client that calls s, and counts what goes by a connection nevertheless.
func inProcess(s *Server, connected *atomic.Int64) []option.ClientOption {
	opts := append(s.ClientOptions(), s.InProcess()...)
	return append(opts,
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			connected.Add(1)
			return invoke(ctx, method, req, reply, cc, opts...)
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			connected.Add(1)
			return open(ctx, desc, cc, method, opts...)
		})))
}

// story is what a client sees of a table: every kind of request, refused and answered.
func story(t *testing.T, opts []option.ClientOption, table string) string {
	t.Helper()
	createTable(t, opts, table, "f")
	ctx, tbl := testContext(t), openClient(t, opts).Open(table)
	var b strings.Builder
	say := func(what string, err error) { fmt.Fprintln(&b, what, status.Code(err), err) }
	fill(t, tbl, 2000, []byte("value"))
	set, other := bigtable.NewMutation(), bigtable.NewMutation()
	set.Set("f", "c", 1000, []byte("new"))
	other.Set("none", "c", 1000, nil)
	say("apply", tbl.Apply(ctx, "r", set))
	say("refused", tbl.Apply(ctx, "r", other))
	var matched bool
	say("conditional", tbl.Apply(ctx, "r", bigtable.NewCondMutation(bigtable.ValueFilter("new"), set, nil), bigtable.GetCondMutationResult(&matched)))
	errs, err := tbl.ApplyBulk(ctx, []string{"r", "s"}, []*bigtable.Mutation{set, other})
	say(fmt.Sprint("bulk ", matched, errs), err)
	add := bigtable.NewReadModifyWrite()
	add.AppendValue("f", "c", []byte("er"))
	_, err = tbl.ApplyReadModifyWrite(ctx, "r", add)
	say("append", err)
	rows, values := 0, ""
	say("scan", tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		if rows++; r.Key() == "r" {
			for _, c := range r["f"] {
				values += string(c.Value) + " "
			}
		}
		return true
	}))
	fmt.Fprintln(&b, rows, values)
	say("no such table", openClient(t, opts).Open("none").Apply(ctx, "r", set))
	return strings.ReplaceAll(b.String(), table, "table")
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	s := start(t)
	var connected atomic.Int64
	want := story(t, s.ClientOptions(), "by-connection")
	got := story(t, inProcess(s, &connected), "in-process")
	if got != want {
		t.Errorf("by a connection:\n%s\nin this process:\n%s", want, got)
	}
	if n := connected.Load(); n > 4 { // to make the table, and to warm connections up
		t.Errorf("%d requests by a connection", n)
	}
}

// What a caller does to its buffers, before and after, is nothing to the store: there is no copy of
// a message but the one that is made here.
func TestInProcessSharesNoMemory(t *testing.T) {
	t.Parallel()
	s := start(t)
	opts := append(s.ClientOptions(), s.InProcess()...)
	createTable(t, opts, "t", "f")
	ctx, tbl := testContext(t), openClient(t, opts).Open("t")
	fill(t, tbl, 1, []byte("x")) // no longer by a connection
	value := []byte("value")
	apply := map[string]func(*bigtable.Mutation) error{
		"one": func(m *bigtable.Mutation) error { return tbl.Apply(ctx, "one", m) },
		"bulk": func(m *bigtable.Mutation) error {
			_, err := tbl.ApplyBulk(ctx, []string{"bulk"}, []*bigtable.Mutation{m})
			return err
		},
		"conditional": func(m *bigtable.Mutation) error {
			return tbl.Apply(ctx, "conditional", bigtable.NewCondMutation(bigtable.PassAllFilter(), nil, m))
		},
	}
	for row, do := range apply {
		m := bigtable.NewMutation()
		m.Set("f", "c", 1000, value)
		if err := do(m); err != nil {
			t.Fatal(err)
		}
		copy(value, "WRONG")
		for range 2 {
			got, err := tbl.ReadRow(ctx, row)
			if err != nil || len(got["f"]) != 1 || string(got["f"][0].Value) != "value" {
				t.Fatalf("%s: %v, %v", row, got, err)
			}
			copy(got["f"][0].Value, "WRONG")
		}
		copy(value, "value")
	}
}

// A caller that leaves, and a server that closes, end a request as they do on a connection.
func TestInProcessEnds(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	s := start(t, withLimits(100, 1<<20), OnChange(func(string, string) {
		if hold.Load() {
			arrived <- struct{}{}
			<-release
		}
	}))
	createTable(t, s.ClientOptions(), "t", "f")
	fill(t, openClient(t, s.ClientOptions()).Open("t"), 5000, []byte("value"))
	hold.Store(true)
	conn, err := grpc.NewClient("passthrough:///nobody", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(s.calls.unary), grpc.WithStreamInterceptor(s.calls.stream))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := btpb.NewBigtableClient(conn)
	apply := func(ctx context.Context) error {
		_, err := client.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), Mutations: []*btpb.Mutation{setCell("f", "c", 1000, nil)}})
		return err
	}
	begin := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() { done <- apply(ctx) }()
		<-arrived
		return done
	}
	ctx, leave := context.WithCancel(testContext(t))
	left := begin(ctx)
	leave()
	wantCode(t, "a caller that leaves", <-left, codes.Canceled)
	wantCode(t, "a caller that has left", apply(ctx), codes.Canceled)
	release <- struct{}{}

	stream, err := client.ReadRows(testContext(t), &btpb.ReadRowsRequest{TableName: fullName("t")})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	held := begin(testContext(t))
	closed := make(chan struct{})
	go func() { _ = s.Close(); close(closed) }()
	wantCode(t, "a request when the emulator closes", <-held, codes.Unavailable)
	release <- struct{}{}
	<-closed
	for err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, "a stream when the emulator closes", err, codes.Unavailable)
	wantCode(t, "a request of a closed emulator", apply(testContext(t)), codes.Unavailable)
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
