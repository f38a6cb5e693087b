package emulator

import (
	"context"
	"testing"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func openAdmin(t *testing.T, opts []option.ClientOption) *bigtable.AdminClient {
	t.Helper()
	admin, err := bigtable.NewAdminClient(testContext(t), project, instance, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

func setFamily(ctx context.Context, tbl *bigtable.Table, family string) error {
	m := bigtable.NewMutation()
	m.Set(family, "q", 1000, []byte("v"))
	return tbl.Apply(ctx, "r", m)
}

func connect(t *testing.T, profile string, opts []option.ClientOption) (*bigtable.Client, error) {
	t.Helper()
	c, err := bigtable.NewClientWithConfig(testContext(t), project, instance, bigtable.ClientConfig{
		AppProfile: profile, MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, opts...)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// TestPrincipalsHaveTheirRightsAlone: who may connect, and do what.
func TestPrincipalsHaveTheirRightsAlone(t *testing.T) {
	t.Parallel()
	s := start(t, Principals(map[string]Rights{
		"admin":  {Instance: Role("roles/bigtable.admin")},
		"worker": {Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{"t": Role("roles/bigtable.user")}},
		"reader": {Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{"t": Role("roles/bigtable.reader")}},
		"deaf":   {Tables: map[string][]string{"t": Role("roles/bigtable.user")}},
		"viewer": {Instance: Role("roles/bigtable.viewer")},
	}))
	ctx := testContext(t)
	for _, table := range []string{"t", "u"} {
		createTable(t, s.ClientOptionsOf("admin"), table, "f")
	}
	condition := func(tbl *bigtable.Table) error {
		m := bigtable.NewMutation()
		m.Set("f", "q", 1000, nil)
		return tbl.Apply(ctx, "r", bigtable.NewCondMutation(bigtable.PassAllFilter(), nil, m))
	}
	readRow := func(tbl *bigtable.Table) error { _, err := tbl.ReadRow(ctx, "r"); return err }
	sample := func(tbl *bigtable.Table) error { _, err := tbl.SampleRowKeys(ctx); return err }
	write := func(tbl *bigtable.Table) error { return setFamily(ctx, tbl, "f") }
	bulk := func(tbl *bigtable.Table) error {
		m := bigtable.NewMutation()
		m.Set("f", "q", 1000, nil)
		_, err := tbl.ApplyBulk(ctx, []string{"r"}, []*bigtable.Mutation{m})
		return err
	}
	for _, c := range []struct {
		principal, table string
		may              bool
		do               func(*bigtable.Table) error
	}{
		{"worker", "t", true, readRow}, {"worker", "t", true, sample}, {"worker", "t", true, write}, {"worker", "t", true, bulk}, {"worker", "t", true, condition},
		{"worker", "u", false, readRow}, {"worker", "u", false, sample}, {"worker", "u", false, write}, {"worker", "u", false, bulk}, {"worker", "u", false, condition},
		{"reader", "t", true, readRow}, {"reader", "t", true, sample}, {"reader", "t", false, write}, {"reader", "t", false, bulk}, {"reader", "t", false, condition},
		{"admin", "u", true, readRow}, {"admin", "u", true, write},
	} {
		client, err := connect(t, "", s.ClientOptionsOf(c.principal))
		if err != nil {
			t.Fatalf("%s cannot connect: %v", c.principal, err)
		}
		if err := c.do(client.Open(c.table)); (err == nil) != c.may || err != nil && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s in %s: %v, allowed: %v", c.principal, c.table, err, c.may)
		}
	}
	for _, name := range []string{"deaf", "viewer", "nobody"} {
		if _, err := connect(t, "", s.ClientOptionsOf(name)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s connects: %v", name, err)
		}
	}
	if _, err := connect(t, "", s.ClientOptions()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a caller without a name connects: %v", err)
	}
	viewer := openAdmin(t, s.ClientOptionsOf("viewer"))
	if _, err := viewer.TableInfo(ctx, "t"); err != nil {
		t.Errorf("viewer looks at a table: %v", err)
	}
	for name, err := range map[string]error{
		"creates a table": viewer.CreateTable(ctx, "v"), "creates a family": viewer.CreateColumnFamily(ctx, "t", "g"),
		"deletes a table": viewer.DeleteTable(ctx, "t"), "drops rows": viewer.DropRowRange(ctx, "t", "r"),
		"does what has no known permission": viewer.WaitForReplication(ctx, "t"),
	} {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("viewer %s: %v", name, err)
		}
	}
}

// TestAppProfiles: what the profile of a client allows.
func TestAppProfiles(t *testing.T) {
	t.Parallel()
	s := start(t, AppProfiles(map[string]AppProfile{
		"reads": {SingleCluster: true}, "any": {TransactionalWrites: true}, "txn": {SingleCluster: true, TransactionalWrites: true},
	}))
	createTable(t, s.ClientOptions(), "t", "f")
	ctx := testContext(t)
	for profile, want := range map[string]codes.Code{"": codes.OK, "txn": codes.OK, "reads": codes.FailedPrecondition, "any": codes.FailedPrecondition} {
		client, err := connect(t, profile, s.ClientOptions())
		if err != nil {
			t.Fatal(err)
		}
		tbl := client.Open("t")
		if err := setFamily(ctx, tbl, "f"); err != nil {
			t.Errorf("%q writes without a condition: %v", profile, err)
		}
		m := bigtable.NewMutation()
		m.Set("f", "q", 1000, nil)
		if err := tbl.Apply(ctx, "r", bigtable.NewCondMutation(bigtable.PassAllFilter(), m, nil)); status.Code(err) != want {
			t.Errorf("%q writes on a condition: %v, want %v", profile, err, want)
		}
	}
	client, err := connect(t, "unknown", s.ClientOptions()) // the client takes NotFound for an instance without tables
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Open("t").ReadRow(ctx, "r"); status.Code(err) != codes.NotFound {
		t.Errorf("a profile that does not exist: %v", err)
	}
}
