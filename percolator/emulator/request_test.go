package emulator

import (
	"testing"
	"time"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// waitOf is how long the status of an error asks to wait; 0: it does not.
func waitOf(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration()
		}
	}
	return 0
}

// TestRequestsAreRefused: by their method and message, with a status and its details, over
// connections and as functions; nothing of them is applied.
func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	var refuse func(Request) error
	s := start(t, OnRequest(func(r Request) error {
		if refuse == nil {
			return nil
		}
		return refuse(r)
	}))
	createTable(t, s.ClientOptions(), "t", "f")
	ctx := testContext(t)
	over := btpb.NewBigtableClient(dial(t, s.Addr()))
	inside, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(s.calls.unary))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	write := func(c btpb.BigtableClient, row string) error {
		_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte(row), Mutations: repeated(1, setCell("f", "q", 1000, nil))})
		return err
	}
	if err := write(over, "r"); err != nil { // from now on as functions
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, 1500 * time.Millisecond} {
		refuse = func(r Request) error {
			if m, ok := r.Message.(*btpb.MutateRowRequest); ok && r.Method == "MutateRow" && string(m.RowKey) == "refused" {
				return Overloaded(after)
			}
			return nil
		}
		for name, c := range map[string]btpb.BigtableClient{"over a connection": over, "as a function": btpb.NewBigtableClient(inside)} {
			if err := write(c, "refused"); status.Code(err) != codes.ResourceExhausted || waitOf(err) != after {
				t.Errorf("%s: %v, wait %v, want %v", name, err, waitOf(err), after)
			}
			if err := write(c, "r"); err != nil {
				t.Errorf("%s, another row: %v", name, err)
			}
		}
	}
	refuse = nil
	if cells, err := readChunks(ctx, over, &btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{RowKeys: [][]byte{[]byte("refused")}}}); err != nil || len(cells) > 0 {
		t.Errorf("%v, %v", cells, err)
	}
	refuse = func(r Request) error {
		if r.Method == "ReadRows" || r.Method == "MutateRows" || r.Method == "SampleRowKeys" || r.Method == "CreateTable" {
			return AskToWait(status.Error(codes.Aborted, r.Method), time.Second)
		}
		return nil
	}
	_, read := readChunks(ctx, over, &btpb.ReadRowsRequest{TableName: fullName("t")})
	_, bulk := mutateRows(ctx, over, &btpb.MutateRowsRequest_Entry{RowKey: []byte("r"), Mutations: repeated(1, setCell("f", "q", 1000, nil))})
	_, create := bareAdmin(t, s).CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: "u"})
	for name, err := range map[string]error{"ReadRows": read, "MutateRows": bulk, "CreateTable": create} {
		if st := status.Convert(err); st.Code() != codes.Aborted || st.Message() != name || waitOf(err) != time.Second {
			t.Errorf("%s: %v, wait %v", name, err, waitOf(err))
		}
	}
	if waitOf(AskToWait(nil, time.Second)) != 0 || AskToWait(nil, time.Second) != nil {
		t.Error("no error asks to wait")
	}
}
