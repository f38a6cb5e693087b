package emulator

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// bare is the data API of an emulator with a table "t" with the family "f".
func bare(t *testing.T, opts ...Option) btpb.BigtableClient {
	t.Helper()
	s := start(t, opts...)
	createTable(t, s.ClientOptions(), "t", "f")
	return btpb.NewBigtableClient(dial(t, s.Addr()))
}

func setCell(family, qualifier string, ts int64, value []byte) *btpb.Mutation {
	return &btpb.Mutation{Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{
		FamilyName: family, ColumnQualifier: []byte(qualifier), TimestampMicros: ts, Value: value}}}
}

func eraseCells(from, to int64) *btpb.Mutation {
	return &btpb.Mutation{Mutation: &btpb.Mutation_DeleteFromColumn_{DeleteFromColumn: &btpb.Mutation_DeleteFromColumn{
		FamilyName: "f", ColumnQualifier: []byte("q"), TimeRange: &btpb.TimestampRange{StartTimestampMicros: from, EndTimestampMicros: to}}}}
}

func repeated(n int, m *btpb.Mutation) []*btpb.Mutation {
	all := make([]*btpb.Mutation, n)
	for i := range all {
		all[i] = m
	}
	return all
}

func passAll() *btpb.RowFilter {
	return &btpb.RowFilter{Filter: &btpb.RowFilter_PassAllFilter{PassAllFilter: true}}
}

// nested is a filter of n levels.
func nested(n int) *btpb.RowFilter {
	f := passAll()
	for range n - 1 {
		f = &btpb.RowFilter{Filter: &btpb.RowFilter_Chain_{Chain: &btpb.RowFilter_Chain{Filters: []*btpb.RowFilter{f, passAll()}}}}
	}
	return f
}

// filterOf is a filter of exactly size bytes.
func filterOf(t *testing.T, size int) *btpb.RowFilter {
	t.Helper()
	f := &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: make([]byte, size)}}
	over := proto.Size(f) - size
	f.Filter = &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: bytes.Repeat([]byte("q"), size-over)}
	if n := proto.Size(f); n != size {
		t.Fatalf("a filter of %d bytes, want %d", n, size)
	}
	return f
}

// readOf is a request of exactly size bytes.
func readOf(t *testing.T, size int) *btpb.ReadRowsRequest {
	t.Helper()
	r := &btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{}}
	for i := 0; proto.Size(r)+4200 < size; i++ {
		r.Rows.RowKeys = append(r.Rows.RowKeys, fmt.Appendf(nil, "%04000d", i))
	}
	for proto.Size(r) < size { // the key that is left; its length takes two bytes
		r.Rows.RowKeys = append(r.Rows.RowKeys, bytes.Repeat([]byte("k"), min(size-proto.Size(r)-3, 2000)))
	}
	if n := proto.Size(r); n != size {
		t.Fatalf("a request of %d bytes, want %d", n, size)
	}
	return r
}

func readChunks(ctx context.Context, c btpb.BigtableClient, r *btpb.ReadRowsRequest) ([]*btpb.ReadRowsResponse_CellChunk, error) {
	stream, err := c.ReadRows(ctx, r)
	if err != nil {
		return nil, err
	}
	var chunks []*btpb.ReadRowsResponse_CellChunk
	for {
		m, err := stream.Recv()
		if err != nil {
			if err.Error() == "EOF" {
				err = nil
			}
			return chunks, err
		}
		chunks = append(chunks, m.Chunks...)
	}
}

func mutateRows(ctx context.Context, c btpb.BigtableClient, entries ...*btpb.MutateRowsRequest_Entry) (map[int64]codes.Code, error) {
	stream, err := c.MutateRows(ctx, &btpb.MutateRowsRequest{TableName: fullName("t"), Entries: entries})
	if err != nil {
		return nil, err
	}
	answers := map[int64]codes.Code{}
	for {
		m, err := stream.Recv()
		if err != nil {
			if err.Error() == "EOF" {
				err = nil
			}
			return answers, err
		}
		for _, e := range m.Entries {
			answers[e.Index] = codes.Code(e.Status.GetCode())
		}
	}
}

// TestBeyondEachLimitIsRefused has each limit of the service, and the request just beyond it.
func TestBeyondEachLimitIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	c := bare(t)
	ctx := testContext(t)
	one := setCell("f", "q", 1000, nil)
	row := func(key []byte, m ...*btpb.Mutation) func() error {
		return func() error {
			_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: key, Mutations: m})
			return err
		}
	}
	reading := func(r *btpb.ReadRowsRequest) func() error {
		return func() error { _, err := readChunks(ctx, c, r); return err }
	}
	filtered := func(f *btpb.RowFilter) func() error {
		return reading(&btpb.ReadRowsRequest{TableName: fullName("t"), Filter: f})
	}
	check := func(key []byte, predicate *btpb.RowFilter, onTrue, onFalse []*btpb.Mutation) func() error {
		return func() error {
			_, err := c.CheckAndMutateRow(ctx, &btpb.CheckAndMutateRowRequest{
				TableName: fullName("t"), RowKey: key, PredicateFilter: predicate, TrueMutations: onTrue, FalseMutations: onFalse})
			return err
		}
	}
	rows := func(n ...int) func() error {
		var entries []*btpb.MutateRowsRequest_Entry
		for i, m := range n {
			entries = append(entries, &btpb.MutateRowsRequest_Entry{RowKey: fmt.Append(nil, "r", i), Mutations: repeated(m, one)})
		}
		return func() error { _, err := mutateRows(ctx, c, entries...); return err }
	}
	key := func(n int) []byte { return bytes.Repeat([]byte("k"), n) }
	for _, limit := range []struct {
		name       string
		at, beyond func() error
	}{
		{"bytes of a ReadRowsRequest", reading(readOf(t, 512<<10)), reading(readOf(t, 512<<10+1))},
		{"bytes of a filter", filtered(filterOf(t, 20<<10)), filtered(filterOf(t, 20<<10+1))},
		{"levels of a filter", filtered(nested(20)), filtered(nested(21))},
		{"bytes of a predicate", check(key(1), filterOf(t, 20<<10), repeated(1, one), nil), check(key(1), filterOf(t, 20<<10+1), repeated(1, one), nil)},
		{"levels of a predicate", check(key(1), nested(20), repeated(1, one), nil), check(key(1), nested(21), repeated(1, one), nil)},
		{"mutations of a row", row(key(1), repeated(100_000, one)...), row(key(1), repeated(100_001, one)...)},
		{"mutations on a match", check(key(1), passAll(), repeated(100_000, one), nil), check(key(1), passAll(), repeated(100_001, one), nil)},
		{"mutations on a miss", check(key(1), passAll(), nil, repeated(100_000, one)), check(key(1), passAll(), nil, repeated(100_001, one))},
		{"mutations of a request", rows(60_000, 40_000), rows(60_000, 40_001)},
		{"bytes of a row key that is written", row(key(4096), one), row(key(4097), one)},
		{"bytes of a row key of a condition", check(key(4096), passAll(), repeated(1, one), nil), check(key(4097), passAll(), repeated(1, one), nil)},
		{"bytes of a row key that is read",
			reading(&btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{RowKeys: [][]byte{key(4096)}}}),
			reading(&btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{RowKeys: [][]byte{key(4097)}}})},
		{"rows of an answer", reading(&btpb.ReadRowsRequest{TableName: fullName("t")}), reading(&btpb.ReadRowsRequest{TableName: fullName("t"), RowsLimit: -1})},
		{"no row key", row(key(1), one), row(nil, one)},
		{"no mutation", row(key(1), one), row(key(1))},
		{"no mutation of a condition", check(key(1), passAll(), repeated(1, one), nil), check(key(1), passAll(), nil, nil)},
		{"no row", rows(1), rows()},
		{"bytes of a qualifier", row(key(1), setCell("f", string(key(16<<10)), 1000, nil)), row(key(1), setCell("f", string(key(16<<10+1)), 1000, nil))},
		{"bytes of a value", row(key(1), setCell("f", "v", 1000, make([]byte, 100<<20))), row(key(1), setCell("f", "v", 1000, make([]byte, 100<<20+1)))},
		{"timestamps of a cell", row(key(1), setCell("f", "q", 2000, nil)), row(key(1), setCell("f", "q", 2001, nil))},
		{"negative timestamps", row(key(1), setCell("f", "q", -1, nil)), row(key(1), setCell("f", "q", -1000, nil))},
		{"time range", row(key(1), eraseCells(1000, 2000)), row(key(1), eraseCells(1000, 2500))},
		{"empty time range", row(key(1), eraseCells(1000, 2000)), row(key(1), eraseCells(2000, 2000))},
	} {
		if err := limit.at(); err != nil {
			t.Errorf("%s: at the limit: %v", limit.name, err)
		}
		if err := limit.beyond(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: beyond the limit: %v, want InvalidArgument", limit.name, err)
		}
	}
}

// TestBadMutationAppliesNothing: Google's emulator applies what comes before it.
func TestBadMutationAppliesNothing(t *testing.T) {
	t.Parallel()
	c := bare(t)
	ctx := testContext(t)
	good := setCell("f", "q", 1000, []byte("v"))
	for name, bad := range map[string]struct {
		m    *btpb.Mutation
		code codes.Code
	}{
		"family":    {setCell("g", "q", 1000, nil), codes.NotFound},
		"timestamp": {setCell("f", "q", 1, nil), codes.InvalidArgument},
	} {
		_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), Mutations: []*btpb.Mutation{good, bad.m}})
		if status.Code(err) != bad.code {
			t.Errorf("%s: MutateRow: %v, want %v", name, err, bad.code)
		}
		_, err = c.CheckAndMutateRow(ctx, &btpb.CheckAndMutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), FalseMutations: []*btpb.Mutation{good, bad.m}})
		if status.Code(err) != bad.code {
			t.Errorf("%s: CheckAndMutateRow: %v, want %v", name, err, bad.code)
		}
	}
	if _, err := mutateRows(ctx, c,
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("good"), Mutations: []*btpb.Mutation{good}},
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("bad"), Mutations: []*btpb.Mutation{good, setCell("f", "q", 1, nil)}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("MutateRows: %v", err)
	}
	if chunks, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t")}); err != nil || len(chunks) > 0 {
		t.Errorf("the table has %v, %v", chunks, err)
	}
	answers, err := mutateRows(ctx, c,
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("bad"), Mutations: []*btpb.Mutation{good, setCell("g", "q", 1000, nil)}},
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("good"), Mutations: []*btpb.Mutation{good}})
	if err != nil || len(answers) != 2 || answers[0] != codes.NotFound || answers[1] != codes.OK {
		t.Errorf("MutateRows: %v, %v", answers, err)
	}
	chunks, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t")})
	if err != nil || len(chunks) != 1 || string(chunks[0].RowKey) != "good" {
		t.Errorf("the table has %v, %v", chunks, err)
	}
}

// TestNewFamilyIsKnown: what is remembered of a table's families follows its changes.
func TestNewFamilyIsKnown(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	setColumns(t, tbl, "r", "a")
	ctx := testContext(t)
	admin := openAdmin(t, s.ClientOptions())
	if err := admin.CreateColumnFamily(ctx, "t", "g"); err != nil {
		t.Fatal(err)
	}
	if err := setFamily(ctx, tbl, "g"); err != nil {
		t.Error(err)
	}
	if err := admin.DeleteColumnFamily(ctx, "t", "g"); err != nil {
		t.Fatal(err)
	}
	if err := setFamily(ctx, tbl, "g"); status.Code(err) != codes.NotFound {
		t.Errorf("a family that was dropped: %v", err)
	}
}

// TestRowOfAnAnswer has the limit of 256 MiB at a smaller size: a filter can return a cell twice.
func TestRowOfAnAnswer(t *testing.T) {
	t.Parallel()
	c := bare(t, func(s *settings) { s.rules.limits.row = 10_000 })
	ctx := testContext(t)
	set := func(key string, n int) {
		t.Helper()
		_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte(key), Mutations: []*btpb.Mutation{setCell("f", "q", 1000, make([]byte, n))}})
		if err != nil {
			t.Fatal(err)
		}
	}
	set("b", 10_000-2-chunkOverhead)
	if _, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t")}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	twice := func(key string) codes.Code {
		_, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{RowKeys: [][]byte{[]byte(key)}}, Filter: &btpb.RowFilter{
			Filter: &btpb.RowFilter_Interleave_{Interleave: &btpb.RowFilter_Interleave{Filters: []*btpb.RowFilter{passAll(), passAll()}}}}})
		return status.Code(err)
	}
	set("a", 5_000-2-chunkOverhead)
	if code := twice("a"); code != codes.OK {
		t.Errorf("twice, at the limit: %v", code)
	}
	set("c", 5_000-1-chunkOverhead)
	if code := twice("c"); code != codes.FailedPrecondition {
		t.Errorf("twice, beyond the limit: %v", code)
	}
}
