package emulator

import (
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bareAdmin is the table administration of an emulator.
func bareAdmin(t *testing.T, s *Server) btapb.BigtableTableAdminClient {
	t.Helper()
	return btapb.NewBigtableTableAdminClient(dial(t, s.Addr()))
}

const parent = "projects/p/instances/i"

// withFamilies is a table with so many families.
func withFamilies(n int) *btapb.Table {
	table := &btapb.Table{ColumnFamilies: map[string]*btapb.ColumnFamily{}}
	for i := range n {
		table.ColumnFamilies[fmt.Sprint("f", i)] = &btapb.ColumnFamily{}
	}
	return table
}

// TestIDs: which tables and families may be named how.
func TestIDs(t *testing.T) {
	t.Parallel()
	admin := bareAdmin(t, start(t))
	ctx := testContext(t)
	long := func(c string, n int) string { return strings.Repeat(c, n) }
	for _, c := range []struct {
		id   string
		want codes.Code
	}{
		{"t", codes.OK}, {"_t", codes.OK}, {"0-t.T_", codes.OK}, {long("t", 50), codes.OK},
		{"", codes.InvalidArgument}, {long("t", 51), codes.InvalidArgument}, {"-t", codes.InvalidArgument}, {".t", codes.InvalidArgument},
		{"t t", codes.InvalidArgument}, {"t/t", codes.InvalidArgument}, {"tä", codes.InvalidArgument}, {"t\n", codes.InvalidArgument},
	} {
		if _, err := admin.CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: c.id}); status.Code(err) != c.want {
			t.Errorf("table %q: %v, want %v", c.id, err, c.want)
		}
	}
	for i, c := range []struct {
		id   string
		want codes.Code
	}{
		{"f", codes.OK}, {"-f", codes.OK}, {".0_F-", codes.OK}, {long("f", 64), codes.OK},
		{"", codes.InvalidArgument}, {long("f", 65), codes.InvalidArgument}, {"f:f", codes.InvalidArgument}, {"f f", codes.InvalidArgument}, {"f\n", codes.InvalidArgument},
	} {
		families := map[string]*btapb.ColumnFamily{c.id: {}}
		_, err := admin.CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: fmt.Sprint("with", i), Table: &btapb.Table{ColumnFamilies: families}})
		if status.Code(err) != c.want {
			t.Errorf("a new table with family %q: %v, want %v", c.id, err, c.want)
		}
		_, err = admin.ModifyColumnFamilies(ctx, &btapb.ModifyColumnFamiliesRequest{Name: fullName("t"), Modifications: []*btapb.ModifyColumnFamiliesRequest_Modification{
			{Id: c.id, Mod: &btapb.ModifyColumnFamiliesRequest_Modification_Create{Create: &btapb.ColumnFamily{}}}}})
		if status.Code(err) != c.want {
			t.Errorf("another family %q: %v, want %v", c.id, err, c.want)
		}
	}
}

// TestFamiliesOfATable: there are 100 of them, whichever way they come; those that are dropped make
// room.
func TestFamiliesOfATable(t *testing.T) {
	t.Parallel()
	s := start(t)
	admin := bareAdmin(t, s)
	ctx := testContext(t)
	if _, err := admin.CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: "full", Table: withFamilies(100)}); err != nil {
		t.Errorf("100 families: %v", err)
	}
	if _, err := admin.CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: "t", Table: withFamilies(101)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("101 families: %v", err)
	}
	create := &btapb.ModifyColumnFamiliesRequest_Modification{Id: "another", Mod: &btapb.ModifyColumnFamiliesRequest_Modification_Create{Create: &btapb.ColumnFamily{}}}
	drop := &btapb.ModifyColumnFamiliesRequest_Modification{Id: "f7", Mod: &btapb.ModifyColumnFamiliesRequest_Modification_Drop{Drop: true}}
	if _, err := admin.ModifyColumnFamilies(ctx, &btapb.ModifyColumnFamiliesRequest{Name: fullName("full"), Modifications: []*btapb.ModifyColumnFamiliesRequest_Modification{create}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the 101st family: %v", err)
	}
	if _, err := admin.ModifyColumnFamilies(ctx, &btapb.ModifyColumnFamiliesRequest{Name: fullName("full"), Modifications: []*btapb.ModifyColumnFamiliesRequest_Modification{drop, create}}); err != nil {
		t.Errorf("one for another: %v", err)
	}
}

// TestTablesOfAnInstance: there are 1,000 of them; another instance has its own.
func TestTablesOfAnInstance(t *testing.T) {
	t.Parallel()
	s := start(t)
	admin := bareAdmin(t, s)
	ctx := testContext(t)
	create := func(parent, id string) codes.Code {
		_, err := admin.CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: id})
		return status.Code(err)
	}
	for i := range 1000 {
		if code := create(parent, fmt.Sprint("t", i)); code != codes.OK {
			t.Fatalf("table %d: %v", i+1, code)
		}
	}
	if code := create(parent, "t"); code != codes.FailedPrecondition {
		t.Errorf("the 1,001st table: %v", code)
	}
	if code := create(parent+"2", "t"); code != codes.OK {
		t.Errorf("another instance: %v", code)
	}
	if _, err := admin.DeleteTable(ctx, &btapb.DeleteTableRequest{Name: fullName("t7")}); err != nil {
		t.Fatal(err)
	}
	if code := create(parent, "t"); code != codes.OK {
		t.Errorf("after another was deleted: %v", code)
	}
}

// TestSplitsOfTables: the keys at which a table is split are row keys.
func TestSplitsOfTables(t *testing.T) {
	t.Parallel()
	admin := openAdmin(t, start(t).ClientOptions())
	create := func(id, split string) error {
		return admin.CreatePresplitTable(testContext(t), id, []string{"a", split})
	}
	key := strings.Repeat("k", 4096)
	if err := create("t", key); err != nil {
		t.Errorf("at the limits: %v", err)
	}
	for what, err := range map[string]error{"a long key": create("u", key+"k"), "no key": create("v", "")} {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", what, err)
		}
	}
}

// TestPingWithoutTables: connections cannot be warmed to an instance without tables. Clients start
// all the same.
func TestPingWithoutTables(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx := testContext(t)
	c := btpb.NewBigtableClient(dial(t, s.Addr()))
	ping := func() codes.Code {
		_, err := c.PingAndWarm(ctx, &btpb.PingAndWarmRequest{Name: parent})
		return status.Code(err)
	}
	if code := ping(); code != codes.NotFound {
		t.Errorf("without tables: %v", code)
	}
	client := openClient(t, s.ClientOptions())
	admin := openAdmin(t, s.ClientOptions())
	createTable(t, s.ClientOptions(), "t", "f")
	if code := ping(); code != codes.OK {
		t.Errorf("with a table: %v", code)
	}
	if err := client.Open("t").Apply(ctx, "r", setOne()); err != nil {
		t.Errorf("a client that was made before the table: %v", err)
	}
	if err := admin.DeleteTable(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if code := ping(); code != codes.NotFound {
		t.Errorf("after the last table: %v", code)
	}
}

func setOne() *bigtable.Mutation {
	m := bigtable.NewMutation()
	m.Set("f", "q", 1000, nil)
	return m
}
