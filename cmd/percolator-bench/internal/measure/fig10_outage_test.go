package measure

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const outageTable = "projects/p/instances/i/tables/t"

// broken is an outage that lasts, and whose servers have long died.
func broken() *outage {
	o := new(outage)
	now := time.Now()
	o.times.Store(&outageTimes{Begins: now.Add(-time.Hour), Dead: now.Add(-time.Hour), Ends: now.Add(time.Hour)})
	return o
}

// The outage refuses writes of its rows while it lasts; when it begins, some are applied without an
// answer.
func TestFig10OutageOfWrites(t *testing.T) {
	t.Parallel()
	applied := 0
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		applied++
		return nil
	}
	send := func(o *outage, table, row string) error {
		return o.unary(t.Context(), "", &btpb.CheckAndMutateRowRequest{TableName: table, RowKey: []byte(row)},
			new(btpb.CheckAndMutateRowResponse), nil, invoke)
	}
	o := broken()
	for _, c := range []struct {
		table, row string
		refused    bool
	}{
		{outageTable, "5554-1", false}, {outageTable, "5555", true}, {outageTable, "a9ff-1", true}, {outageTable, "aaaa", false},
		{"projects/p/instances/i/tables/percolator_meta", "7777", false},
	} {
		applied = 0
		err := send(o, c.table, c.row)
		if (status.Code(err) == codes.Unavailable) != c.refused || (applied == 0) != c.refused {
			t.Errorf("%s of %s: %v, applied %d times", c.row, c.table, err, applied)
		}
	}
	if o.refused.Load() != 2 || o.lost.Load() != 0 {
		t.Errorf("%d refused, %d lost", o.refused.Load(), o.lost.Load())
	}

	applied = 0
	o = broken()
	o.times.Load().Dead = time.Now().Add(time.Hour)
	for range 10 {
		if err := send(o, outageTable, "6666"); status.Code(err) != codes.Unavailable {
			t.Errorf("while the server dies: %v", err)
		}
	}
	if applied != 5 || o.refused.Load() != 5 || o.lost.Load() != 5 {
		t.Errorf("%d applied, %d refused, %d lost", applied, o.refused.Load(), o.lost.Load())
	}

	o = broken()
	o.times.Store(&outageTimes{Ends: time.Now().Add(-time.Hour)})
	if err := send(o, outageTable, "6666"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// A worker that is severed gets its prewrites through, and no commit.
func TestFig10Severed(t *testing.T) {
	t.Parallel()
	o := new(outage)
	o.severed.Store(true)
	send := func(ctx context.Context, family string) error {
		set := &btpb.Mutation{Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{FamilyName: family, ColumnQualifier: []byte("c")}}}
		return o.unary(ctx, "", &btpb.CheckAndMutateRowRequest{TableName: outageTable, TrueMutations: []*btpb.Mutation{set}},
			new(btpb.CheckAndMutateRowResponse), nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
	}
	if err := send(t.Context(), "lock"); err != nil || o.held.Load() != 0 {
		t.Errorf("a prewrite: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := send(ctx, recordFamily); status.Code(err) != codes.Canceled || o.held.Load() != 1 {
		t.Errorf("a commit: %v, %d held", err, o.held.Load())
	}
}

// What a read wants of dead rows it does not get, nor what lies behind them.
func TestFig10RowsBefore(t *testing.T) {
	t.Parallel()
	keys := func(k ...string) (out [][]byte) {
		for _, key := range k {
			out = append(out, []byte(key))
		}
		return out
	}
	closed := func(start, end string) *btpb.RowRange {
		r := &btpb.RowRange{StartKey: &btpb.RowRange_StartKeyClosed{StartKeyClosed: []byte(start)}}
		if end != "" {
			r.EndKey = &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte(end)}
		}
		return r
	}
	for name, c := range map[string]struct {
		set     *btpb.RowSet
		touched bool
		before  *btpb.RowSet
	}{
		"live keys":         {&btpb.RowSet{RowKeys: keys("1", "b")}, false, &btpb.RowSet{RowKeys: keys("1")}},
		"a dead key":        {&btpb.RowSet{RowKeys: keys("6")}, true, nil},
		"keys on all sides": {&btpb.RowSet{RowKeys: keys("b", "6", "1", "5")}, true, &btpb.RowSet{RowKeys: keys("1", "5")}},
		"the first key":     {&btpb.RowSet{RowKeys: keys("5555")}, true, nil},
		"the end":           {&btpb.RowSet{RowKeys: keys("aaaa")}, false, nil},
		"all rows": {nil, true, &btpb.RowSet{RowRanges: []*btpb.RowRange{
			{EndKey: &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte("5555")}}}}},
		"a range before": {&btpb.RowSet{RowRanges: []*btpb.RowRange{closed("1", "5555")}}, false,
			&btpb.RowSet{RowRanges: []*btpb.RowRange{closed("1", "5555")}}},
		"a range into it": {&btpb.RowSet{RowRanges: []*btpb.RowRange{closed("1", "7")}}, true, &btpb.RowSet{RowRanges: []*btpb.RowRange{closed("1", "5555")}}},
		"a range within":  {&btpb.RowSet{RowRanges: []*btpb.RowRange{closed("6", "7")}}, true, nil},
		"a range behind":  {&btpb.RowSet{RowRanges: []*btpb.RowRange{closed("b", "")}}, false, nil},
		"an inclusive end": {&btpb.RowSet{RowRanges: []*btpb.RowRange{{EndKey: &btpb.RowRange_EndKeyClosed{EndKeyClosed: []byte("5555")}}}}, true,
			&btpb.RowSet{RowRanges: []*btpb.RowRange{{EndKey: &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte("5555")}}}}},
		"an exclusive start": {&btpb.RowSet{RowRanges: []*btpb.RowRange{{StartKey: &btpb.RowRange_StartKeyOpen{StartKeyOpen: []byte("aaaa")}}}}, false, nil},
	} {
		before, touched := rowsBefore(c.set, deadFrom, deadTo)
		if touched != c.touched || !proto.Equal(before, c.before) && (before != nil || c.before != nil) {
			t.Errorf("%s: %v, %v", name, before, touched)
		}
	}
}

// answers is a stream of the store: what it was asked, and what it answers.
type answers struct {
	grpc.ClientStream
	asked proto.Message
	give  []proto.Message
}

func (a *answers) SendMsg(m any) error { a.asked = m.(proto.Message); return nil }
func (a *answers) CloseSend() error    { return nil }
func (a *answers) RecvMsg(m any) error {
	if len(a.give) == 0 {
		return io.EOF
	}
	proto.Merge(m.(proto.Message), a.give[0])
	a.give = a.give[1:]
	return nil
}

// open starts a request with a stream of answers under the outage.
func (a *answers) open(t *testing.T, o *outage, method string, request proto.Message) grpc.ClientStream {
	t.Helper()
	s, err := o.stream(t.Context(), nil, nil, method, func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return a, nil
	})
	if err := errors.Join(err, s.SendMsg(request), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFig10OutageOfReads(t *testing.T) {
	t.Parallel()
	row := &btpb.ReadRowsResponse{Chunks: []*btpb.ReadRowsResponse_CellChunk{{RowKey: []byte("1"),
		RowStatus: &btpb.ReadRowsResponse_CellChunk_CommitRow{CommitRow: true}}}}
	for _, c := range []struct {
		keys  []string
		limit int64
		rows  int // that come
		end   codes.Code
	}{
		{[]string{"1", "6"}, 0, 1, codes.Unavailable}, {[]string{"1", "6"}, 1, 1, codes.OK}, {[]string{"6"}, 0, 0, codes.Unavailable}, {[]string{"1", "b"}, 0, 1, codes.OK},
	} {
		request := &btpb.ReadRowsRequest{TableName: outageTable, RowsLimit: c.limit, Rows: new(btpb.RowSet)}
		for _, k := range c.keys {
			request.Rows.RowKeys = append(request.Rows.RowKeys, []byte(k))
		}
		a := &answers{give: []proto.Message{row}}
		s := a.open(t, broken(), btpb.Bigtable_ReadRows_FullMethodName, request)
		rows := 0
		var err error
		for ; err == nil; rows++ {
			err = s.RecvMsg(new(btpb.ReadRowsResponse))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if rows-1 != c.rows || status.Code(err) != c.end || len(request.Rows.RowKeys) != len(c.keys) {
			t.Errorf("%v: %d rows, %v", c, rows-1, err)
		}
	}
}

// Entries of live rows arrive, and all answers come under the numbers that their entries have for
// the caller.
func TestFig10OutageOfBulkMutations(t *testing.T) {
	t.Parallel()
	request := &btpb.MutateRowsRequest{TableName: outageTable}
	for _, k := range []string{"6", "1", "7", "b"} {
		request.Entries = append(request.Entries, &btpb.MutateRowsRequest_Entry{RowKey: []byte(k)})
	}
	ok := &btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{{Index: 0}, {Index: 1}}}
	a := &answers{give: []proto.Message{ok}}
	s := a.open(t, broken(), btpb.Bigtable_MutateRows_FullMethodName, request)
	got := map[int64]codes.Code{}
	for {
		r := new(btpb.MutateRowsResponse)
		if err := s.RecvMsg(r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Entries {
			got[e.Index] = codes.Code(e.GetStatus().GetCode())
		}
	}
	if len(got) != 4 || got[0] != codes.Unavailable || got[1] != codes.OK || got[2] != codes.Unavailable || got[3] != codes.OK {
		t.Errorf("answers: %v", got)
	}
	var sent []string
	for _, e := range a.asked.(*btpb.MutateRowsRequest).Entries {
		sent = append(sent, string(e.RowKey))
	}
	if !slices.Equal(sent, []string{"1", "b"}) {
		t.Errorf("sent: %v", sent)
	}
}
