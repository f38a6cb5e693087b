package emulator

import (
	"fmt"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestOutstandingLimit: the limit of a table is 300,000.
func TestOutstandingLimit(t *testing.T) {
	t.Parallel()
	var table table
	leave, err := table.admit(300_000, serviceLimits.outstanding)
	if err != nil {
		t.Fatalf("at the limit: %v", err)
	}
	if _, err := table.admit(1, serviceLimits.outstanding); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beyond the limit: %v", err)
	}
	leave()
	if _, err := table.admit(300_000, serviceLimits.outstanding); err != nil {
		t.Errorf("after the others: %v", err)
	}
}

// TestOutstandingMutations has that at a smaller size: mutations count while they have no answer,
// by whichever requests; another table has its own.
func TestOutstandingMutations(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *settings) { s.rules.limits.outstanding = 300 })
	for _, table := range []string{"t", "other"} {
		createTable(t, s.ClientOptions(), table, "f")
	}
	c := btpb.NewBigtableClient(dial(t, s.Addr()))
	ctx := testContext(t)
	one := setCell("f", "q", 1000, nil)
	row := func(table string, n int) error {
		_, err := c.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName(table), RowKey: []byte("r"), Mutations: repeated(n, one)})
		return err
	}
	bulk := func(n ...int) error {
		var entries []*btpb.MutateRowsRequest_Entry
		for i, m := range n {
			entries = append(entries, &btpb.MutateRowsRequest_Entry{RowKey: fmt.Append(nil, i), Mutations: repeated(m, one)})
		}
		_, err := mutateRows(ctx, c, entries...)
		return err
	}
	check := func(yes, no int) error {
		_, err := c.CheckAndMutateRow(ctx, &btpb.CheckAndMutateRowRequest{
			TableName: fullName("t"), RowKey: []byte("r"), TrueMutations: repeated(yes, one), FalseMutations: repeated(no, one)})
		return err
	}
	frozen := s.Freeze()
	defer frozen.Thaw()
	var waiting errgroup.Group
	waiting.Go(func() error { return row("t", 100) })
	waiting.Go(func() error { return bulk(60, 40) })
	waiting.Go(func() error { return check(100, 100) })
	table, done := s.guard.tables.use(fullName("t"))
	defer done()
	eventually(t, "300 mutations wait", func() bool { return table.outstanding.Load() == 300 })
	for what, err := range map[string]error{"a row": row("t", 1), "rows": bulk(1), "a condition": check(1, 1)} {
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: %v, want ResourceExhausted", what, err)
		}
	}
	waiting.Go(func() error { return row("other", 1) })
	frozen.Thaw()
	if err := waiting.Wait(); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	eventually(t, "nothing waits", func() bool { return table.outstanding.Load() == 0 })
	if err := row("t", 1); err != nil {
		t.Errorf("after the others: %v", err)
	}
}
