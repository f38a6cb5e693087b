package emulator

import (
	"fmt"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLargeRows has the limit of 256 MiB at a smaller size: a row does not grow beyond it, however
// it is written. What is erased makes room, and rows are not taken for each other.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	c := bare(t, func(s *settings) { s.rules.limits.row = limit })
	ctx := testContext(t)
	cell := func(column string, bytes int) *btpb.Mutation { // of so many bytes in the row "r"
		return setCell("f", column, 1000, make([]byte, bytes-2-chunkOverhead))
	}
	row := func(key string, m ...*btpb.Mutation) codes.Code {
		_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte(key), Mutations: m})
		return status.Code(err)
	}
	check := func(m ...*btpb.Mutation) codes.Code {
		_, err := c.CheckAndMutateRow(ctx, &btpb.CheckAndMutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), FalseMutations: m, TrueMutations: m})
		return status.Code(err)
	}
	appended := func(bytes int) codes.Code {
		_, err := c.ReadModifyWriteRow(ctx, &btpb.ReadModifyWriteRowRequest{TableName: fullName("t"), RowKey: []byte("r"), Rules: []*btpb.ReadModifyWriteRule{{
			FamilyName: "f", ColumnQualifier: []byte("z"), Rule: &btpb.ReadModifyWriteRule_AppendValue{AppendValue: make([]byte, bytes-2-chunkOverhead)}}}})
		return status.Code(err)
	}
	for i := range 3000 { // more than there are slots, so that they exceed the limit together
		if code := row(fmt.Sprint("other", i), setCell("f", "q", 1000, make([]byte, 50_000))); code != codes.OK {
			t.Fatalf("other row %d: %v", i, code)
		}
	}
	if code := row("r", cell("a", 60_000), cell("b", 40_001)); code != codes.FailedPrecondition {
		t.Errorf("one byte more, at once: %v", code)
	}
	if code := row("r", cell("a", 60_000)); code != codes.OK {
		t.Fatal(code)
	}
	if code := row("r", cell("b", 40_001)); code != codes.FailedPrecondition {
		t.Errorf("one byte more: %v", code)
	}
	if code := check(cell("b", 40_001)); code != codes.FailedPrecondition {
		t.Errorf("one byte more, on a condition: %v", code)
	}
	if code := appended(40_001); code != codes.FailedPrecondition {
		t.Errorf("one byte more, appended: %v", code)
	}
	answers, err := mutateRows(ctx, c,
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("r"), Mutations: []*btpb.Mutation{cell("b", 40_001)}},
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("new"), Mutations: []*btpb.Mutation{setCell("f", "q", 1000, nil)}},
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("r"), Mutations: []*btpb.Mutation{cell("b", 40_000)}},
		&btpb.MutateRowsRequest_Entry{RowKey: []byte("r"), Mutations: []*btpb.Mutation{cell("c", 100)}})
	want := map[int64]codes.Code{0: codes.FailedPrecondition, 1: codes.OK, 2: codes.OK, 3: codes.FailedPrecondition}
	if err != nil || fmt.Sprint(answers) != fmt.Sprint(want) {
		t.Errorf("rows: %v, %v, want %v", answers, err, want)
	}
	if code := row("r", &btpb.Mutation{Mutation: &btpb.Mutation_DeleteFromColumn_{DeleteFromColumn: &btpb.Mutation_DeleteFromColumn{FamilyName: "f", ColumnQualifier: []byte("a")}}}); code != codes.OK {
		t.Fatal(code)
	}
	if code := row("r", cell("a", 60_001)); code != codes.FailedPrecondition {
		t.Errorf("one byte more than what was erased: %v", code)
	}
	if code := row("r", cell("a", 60_000)); code != codes.OK {
		t.Errorf("instead of what was erased: %v", code)
	}
}
