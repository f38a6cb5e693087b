package terraform_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/probe"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// site is an instance whose callers have exactly the rights that the module grants.
type site struct {
	*testing.T
	ctx    context.Context
	server *emulator.Server
	oracle tso.Oracle
}

// owner creates the tables, as terraform does.
const owner = "owner"

func newSite(t *testing.T, c grantsCase) *site {
	t.Helper()
	rights := map[string]emulator.Rights{owner: {Instance: emulator.Role("roles/bigtable.admin")}}
	for who, grants := range granted(t, c) {
		r := emulator.Rights{Tables: map[string][]string{}}
		for _, g := range grants {
			if table, ok := strings.CutPrefix(g.on, "tables/"); ok {
				r.Tables[table] = append(r.Tables[table], g.permissions...)
			} else {
				r.Instance = append(r.Instance, g.permissions...)
			}
		}
		rights[who] = r
	}
	server, err := emulator.Start(emulator.Principals(rights))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	s := &site{T: t, ctx: ctx, server: server, oracle: running(t, ctx, tso.NewMemoryStore())}
	client, err := bigtable.NewAdminClient(ctx, "p", "i", s.as(owner)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for name, table := range planned(t, c.schemaFile) {
		conf := bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{}}
		for _, family := range table.Families {
			conf.Families[family] = bigtable.NoGcPolicy()
		}
		if err := client.CreateTableFromConf(ctx, &conf); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// running is an oracle of one server.
func running(t *testing.T, ctx context.Context, store tso.Store) *tso.Server {
	t.Helper()
	server, err := tso.NewServer(store, tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return server
}

func (s *site) as(who string) []option.ClientOption { return s.server.ClientOptionsOf(who) }

// client is a client of the library.
func (s *site) client(who string) *percolator.Client {
	s.Helper()
	c, err := percolator.NewClient(s.ctx, percolator.Config{Project: "p", Instance: "i", Oracle: s.oracle}, s.as(who)...)
	if err != nil {
		s.Fatalf("%s cannot connect: %v", who, err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *site) must(who, what string, err error) {
	s.Helper()
	if err != nil {
		s.Errorf("%s cannot %s: %v", who, what, err)
	}
}

func (s *site) mustNot(who, what string, err error) {
	s.Helper()
	if status.Code(err) != codes.PermissionDenied {
		s.Errorf("%s can %s: %v", who, what, err)
	}
}

// set writes a cell in a transaction.
func (s *site) set(c *percolator.Client, table, column string) error {
	_, err := c.Update(s.ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: table, Row: "r", Column: column}, []byte("v"))
	})
	return err
}

// get reads a cell.
func (s *site) get(c *percolator.Client, table, column string) error {
	snap, err := c.Snapshot(s.ctx)
	if err != nil {
		return err
	}
	if _, err := snap.Get(s.ctx, percolator.Cell{Table: table, Row: "r", Column: column}); !errors.Is(err, percolator.ErrNotFound) {
		return err
	}
	return nil
}

// TestIdentitiesDoTheirWork runs every identity of the module with its rights, and no others, from
// its first connection on, which takes a right of its own.
func TestIdentitiesDoTheirWork(t *testing.T) {
	fixture.Long(t)
	for _, c := range grantsCases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c)
			schema := s.checkSchema(c)
			s.checkOracle(c)
			for who, grants := range granted(t, c) {
				s.checkTables(who, has(grants, "instance", "bigtable.tables.create"), has(grants, "instance", "bigtable.tables.get"))
			}
			for _, who := range slices.Sorted(maps.Keys(granted(t, c))) {
				switch who {
				case "schema", "oracle":
				case "group:readers@example.com":
					s.checkReader(who)
				case "serviceAccount:words@example.com":
					s.checkWordsWorker(who)
				default:
					s.checkWorker(who)
				}
			}
			schema.Tables = append(schema.Tables, percolator.Table{Name: "more"}) // which nobody else may read yet
			_, err := admin.Instance{Project: "p", ID: "i", Options: s.as("schema")}.PlanSchema(s.ctx, schema)
			s.must("schema", "plan a schema", err)
			s.must("schema", "make a table", percolator.CreateSchema(s.ctx, "p", "i", schema, s.as("schema")...))
		})
	}
}

// data is a client of Google's, for requests that the library sends rarely.
func (s *site) data(who string) *bigtable.Client {
	s.Helper()
	client, err := bigtable.NewClientWithConfig(s.ctx, "p", "i", bigtable.ClientConfig{
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true}, s.as(who)...)
	if err != nil {
		s.Fatalf("%s cannot connect: %v", who, err)
	}
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// checkSchema prepares the oracle's record and applies the schema.
func (s *site) checkSchema(c grantsCase) *percolator.Schema {
	s.Helper()
	const who = "schema"
	s.must(who, "find the meta table", admin.Instance{Project: "p", ID: "i", Options: s.as(who)}.CreateMetaTable(s.ctx))
	if c.variables["oracle_store"] == "bigtable" {
		s.must(who, "make the oracle's record", tso.Initialize(s.ctx, tso.NewBigtableStore(s.data(who).Open(metaTable), "oracle")))
	}
	schema := schemaOf(s.T, c.schemaFile)
	schema.Timing = percolator.Timing{RequestLifetime: 500 * time.Millisecond, MetaMaxAge: 500 * time.Millisecond} // for which a collector waits
	s.must(who, "apply a schema", percolator.CreateSchema(s.ctx, "p", "i", schema, s.as(who)...))
	_, err := s.data(who).Open("documents").ReadRow(s.ctx, "r")
	s.mustNot(who, "read documents", err)
	return schema
}

// checkTables looks at tables as percolator check does. Nobody deletes one.
func (s *site) checkTables(who string, creates, sees bool) {
	s.Helper()
	client, err := bigtable.NewAdminClient(s.ctx, "p", "i", s.as(who)...)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_, err = client.TableInfo(s.ctx, metaTable)
	s.must(who, "look at "+metaTable, err)
	if _, err = client.Tables(s.ctx); sees {
		s.must(who, "list tables", err)
	} else {
		s.mustNot(who, "list tables", err)
	}
	if !creates {
		s.mustNot(who, "create a table", client.CreateTable(s.ctx, "none"))
		s.mustNot(who, "create a family", client.CreateColumnFamily(s.ctx, metaTable, "none"))
	}
	s.mustNot(who, "delete a table", client.DeleteTable(s.ctx, metaTable))
}

// TestProbeKnowsTheRoles: what percolator check --live expects of each identity is what the module
// grants, and nothing else.
func TestProbeKnowsTheRoles(t *testing.T) {
	fixture.Long(t)
	for _, c := range grantsCases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c)
			known := map[string]string{
				"group:readers@example.com": "reader", "group:operators@example.com": "operator", "serviceAccount:words@example.com": "worker",
			}
			if c.variables["oracle_store"] == "bigtable" {
				known["oracle"] = "oracle-record"
			}
			run := probe.Config{Project: "p", Instance: "i", Options: s.as(owner), Lines: []string{"identities"}}
			for who, grants := range granted(t, c) {
				at := slices.IndexFunc(probe.Roles(), func(r probe.Role) bool { return r.Name == cmp.Or(known[who], who) })
				if at < 0 {
					t.Fatalf("the probe knows no role for %s", who)
				}
				i := probe.Identity{Role: probe.Roles()[at], Name: who, Options: s.as(who)}
				for table := range planned(t, c.schemaFile) {
					given := slices.ContainsFunc(grants, func(g grant) bool { return g.on == "tables/"+table })
					if table != metaTable && (given || i.Role.Tables == probe.None) {
						i.Tables = append(i.Tables, table)
					}
				}
				run.Identities = append(run.Identities, i)
			}
			report, err := probe.Run(s.ctx, run)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Results[0].Findings {
				if t.Log(f.Saw); f.Level != health.OK {
					t.Errorf("%s: %s", f.Level, f.Saw)
				}
			}
		})
	}
}

// checkOracle keeps the record in Bigtable, or reads what transactions have left there.
func (s *site) checkOracle(c grantsCase) {
	s.Helper()
	client := s.data("oracle")
	_, err := client.Open(metaTable).ReadRow(s.ctx, "meta")
	s.must("oracle", "read "+metaTable, err)
	store := tso.NewBigtableStore(client.Open(metaTable), "oracle")
	if c.variables["oracle_store"] == "bigtable" {
		_, err := running(s.T, s.ctx, store).Next(s.ctx)
		s.must("oracle", "lead", err)
	} else {
		s.mustNot("oracle", "write "+metaTable, tso.Initialize(s.ctx, store))
	}
	_, err = client.Open("documents").ReadRow(s.ctx, "r")
	s.mustNot("oracle", "read documents", err)
}

// checkWorker runs transactions, an observer, a collection and a backup's hold.
func (s *site) checkWorker(who string) {
	s.Helper()
	c := s.client(who)
	s.must(who, "write", s.set(c, "documents", "contents"))
	s.must(who, "write an indexed column", s.set(c, "documents", "url"))
	s.must(who, "read", s.get(c, "documents", "contents"))
	r := observers.NewRegistry()
	r.Observe("count", "documents", "contents", func(_ context.Context, tx *percolator.Txn, _ observers.Change) error {
		return tx.Set(percolator.Cell{Table: "words", Row: "r", Column: "n"}, []byte("1"))
	})
	w, err := observers.NewWorker(c, r, observers.Config{Columns: []observers.Column{{Table: "documents", Name: "contents"}}})
	if err != nil {
		s.Fatalf("%s cannot make a worker: %v", who, err)
	}
	running, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	s.must(who, "run observers", w.WaitIdle(s.ctx))
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("%s: the worker ended: %v", who, err)
	}
	ts, err := s.oracle.Next(s.ctx)
	s.must(who, "ask the oracle", err)
	hold, err := admin.New(c).TakeHold(s.ctx, ts, time.Minute, "backup")
	s.must(who, "take a hold", err)
	for _, err := range admin.New(c).ExportRows(s.ctx, ts, "documents", percolator.All()) {
		s.must(who, "export", err)
	}
	s.must(who, "release a hold", admin.New(c).ReleaseHold(s.ctx, hold))
	_, err = s.data(who).Open("documents").SampleRowKeys(s.ctx)
	s.must(who, "sample keys", err)
	collector, err := admin.New(c).NewCollector(admin.CollectorConfig{})
	s.must(who, "make a collector", err)
	_, err = collector.Collect(s.ctx)
	s.must(who, "collect", err)
}

// checkReader reads its table and no other, and writes nothing.
func (s *site) checkReader(who string) {
	s.Helper()
	c := s.client(who)
	s.must(who, "read", s.get(c, "documents", "contents"))
	s.mustNot(who, "read another table", s.get(c, "words", "n"))
	s.mustNot(who, "write", s.set(c, "documents", "contents"))
}

// checkWordsWorker works in its table and no other.
func (s *site) checkWordsWorker(who string) {
	s.Helper()
	c := s.client(who)
	s.must(who, "write", s.set(c, "words", "n"))
	s.mustNot(who, "read another table", s.get(c, "documents", "contents"))
	s.mustNot(who, "write another table", s.set(c, "documents", "contents"))
}
