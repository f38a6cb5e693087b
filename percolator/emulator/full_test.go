package emulator

import (
	"fmt"
	"testing"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFullStorage: reads and writes are refused, what only deletes passes, and all of it serves
// again once there is room.
func TestFullStorage(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, table := range []string{"t", "u"} {
		createTable(t, s.ClientOptions(), table, "f")
	}
	c, admin := btpb.NewBigtableClient(dial(t, s.Addr())), bareAdmin(t, s)
	ctx := testContext(t)
	set := setCell("f", "q", 1000, nil)
	erase := &btpb.Mutation{Mutation: &btpb.Mutation_DeleteFromRow_{DeleteFromRow: &btpb.Mutation_DeleteFromRow{}}}
	row := func(m ...*btpb.Mutation) error {
		_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), Mutations: m})
		return err
	}
	check := func(m ...*btpb.Mutation) error {
		_, err := c.CheckAndMutateRow(ctx, &btpb.CheckAndMutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), TrueMutations: m, FalseMutations: m})
		return err
	}
	read := func() error {
		_, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t")})
		return err
	}
	appending := func() error {
		_, err := c.ReadModifyWriteRow(ctx, &btpb.ReadModifyWriteRowRequest{TableName: fullName("t"), RowKey: []byte("r"), Rules: []*btpb.ReadModifyWriteRule{{
			FamilyName: "f", ColumnQualifier: []byte("z"), Rule: &btpb.ReadModifyWriteRule_AppendValue{AppendValue: []byte("v")}}}})
		return err
	}
	entries := func() []*btpb.MutateRowsRequest_Entry {
		return []*btpb.MutateRowsRequest_Entry{
			{RowKey: []byte("a"), Mutations: []*btpb.Mutation{set}}, {RowKey: []byte("r"), Mutations: []*btpb.Mutation{erase}},
			{RowKey: []byte("b"), Mutations: []*btpb.Mutation{erase, set}}, {RowKey: []byte("c"), Mutations: []*btpb.Mutation{eraseCells(1000, 2000)}},
		}
	}
	for _, full := range []bool{true, false} {
		s.SetFull(full)
		want := codes.OK
		if full {
			want = codes.ResourceExhausted
		}
		for what, err := range map[string]error{
			"a write": row(set), "both": row(erase, set), "a condition": check(set), "a condition that erases": check(erase), "a read": read(), "a value appended": appending(),
		} {
			if status.Code(err) != want {
				t.Errorf("full: %v: %s: %v, want %v", full, what, err, want)
			}
		}
		answers, err := mutateRows(ctx, c, entries()...)
		if all := (map[int64]codes.Code{0: want, 1: codes.OK, 2: want, 3: codes.OK}); err != nil || fmt.Sprint(answers) != fmt.Sprint(all) {
			t.Errorf("full: %v: rows: %v, %v, want %v", full, answers, err, all)
		}
		_, dropped := admin.DropRowRange(ctx, &btapb.DropRowRangeRequest{Name: fullName("t"), Target: &btapb.DropRowRangeRequest_DeleteAllDataFromTable{DeleteAllDataFromTable: true}})
		for what, err := range map[string]error{"a deletion": row(erase, eraseCells(1000, 2000)), "a range dropped": dropped} {
			if err != nil {
				t.Errorf("full: %v: %s: %v", full, what, err)
			}
		}
	}
	s.SetFull(true)
	if _, err := admin.DeleteTable(ctx, &btapb.DeleteTableRequest{Name: fullName("u")}); err != nil {
		t.Errorf("a table deleted: %v", err)
	}
}
