package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const (
	webSchema    = "testdata/schema/web.yaml"
	grownSchema  = "testdata/schema/web-grown.yaml"
	shrunkSchema = "testdata/schema/web-shrunk.json"
)

// dropTable deletes a table of Bigtable behind everybody's back.
func (c *cluster) dropTable(name string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, c.project, c.instance, c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if err := admin.DeleteTable(ctx, name); err != nil {
		c.t.Fatal(err)
	}
}

func TestSchemaCommands(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSchemaCommands)
}

func testSchemaCommands(t *testing.T) {
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(cli.ExitNotFound, "schema", "show")
	s.run(cli.ExitFindings, "schema", "diff", webSchema)
	s.run(cli.ExitFindings, "schema", "diff", webSchema, "-o", "json")
	s.runWith(cli.ExitUsage, "n\n", "schema", "apply", webSchema)
	s.run(cli.ExitOK, "schema", "apply", webSchema, "--dry-run")
	s.run(cli.ExitNotFound, "schema", "show")
	s.runWith(cli.ExitOK, "y\n", "schema", "apply", webSchema)
	s.run(cli.ExitOK, "schema", "apply", webSchema)
	s.run(cli.ExitOK, "schema", "apply", webSchema, "-o", "json")
	s.run(cli.ExitOK, "schema", "diff", webSchema)
	s.run(cli.ExitOK, "schema", "diff", webSchema, "-o", "json")
	stored := s.run(cli.ExitOK, "schema", "show")
	s.runWith(cli.ExitOK, stored.out, "schema", "diff", "-")
	s.run(cli.ExitOK, "schema", "show", "-o", "json")
	s.run(cli.ExitUsage, "schema", "backfill", "documents", "by-url")

	cl.client = cl.newClient(percolator.Config{})
	cl.set(map[percolator.Cell]string{{Table: "documents", Row: "a", Column: "url"}: "u1", {Table: "documents", Row: "b", Column: "url"}: "u2"})
	s.run(cli.ExitFindings, "schema", "diff", grownSchema)
	s.run(cli.ExitFindings, "schema", "diff", grownSchema, "-o", "json")
	s.run(cli.ExitOK, "schema", "apply", grownSchema, "--yes")
	s.run(cli.ExitOK, "schema", "show")
	s.run(cli.ExitOK, "schema", "show", "-o", "json")
	s.run(cli.ExitFindings, "schema", "verify", "documents", "by-url")
	s.run(cli.ExitFindings, "schema", "verify", "documents", "by-url", "-o", "json", "--limit", "1")
	s.run(cli.ExitOK, "schema", "backfill", "documents", "by-url")
	s.run(cli.ExitOK, "schema", "backfill", "documents", "by-url", "-o", "json")
	s.run(cli.ExitOK, "schema", "backfill", "hosts", "by-name")
	s.run(cli.ExitOK, "schema", "verify", "documents", "by-url")
	s.run(cli.ExitOK, "schema", "verify", "documents", "by-url", "-o", "json")
	s.run(cli.ExitFindings, "schema", "diff", shrunkSchema)
	s.run(cli.ExitFindings, "schema", "diff", shrunkSchema, "-o", "json")
	s.run(cli.ExitFailure, "schema", "apply", shrunkSchema, "--yes")
	s.run(cli.ExitOK, "schema", "diff", grownSchema)

	cl.dropTable("links")
	s.run(cli.ExitFindings, "schema", "diff", grownSchema)
	s.run(cli.ExitOK, "schema", "apply", grownSchema, "--yes", "-o", "json")
	s.run(cli.ExitOK, "schema", "diff", grownSchema)
	s.compare("schema.txt")
}

// TestSchemaApplyBackfill: one command adds an index and fills it, also if an earlier one was
// broken off in between.
func TestSchemaApplyBackfill(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSchemaApplyBackfill)
}

func testSchemaApplyBackfill(t *testing.T) {
	cl := newCluster(t, nil)
	cl.must(cli.ExitOK, "schema", "apply", webSchema, "--yes")
	cl.client = cl.newClient(percolator.Config{})
	cl.set(map[percolator.Cell]string{{Table: "documents", Row: "a", Column: "url"}: "u1"})
	cl.must(cli.ExitUsage, "schema", "apply", grownSchema, "--yes", "--backfill", "--tso=")
	cl.must(cli.ExitOK, "schema", "apply", grownSchema, "--yes") // and no more
	out := cl.must(cli.ExitOK, "schema", "apply", grownSchema, "--yes", "--backfill").out
	if !strings.Contains(out, "index by-url of documents: ready since") || strings.Contains(out, "by-name") {
		t.Errorf("printed %q, want that by-url was filled, and nothing of an index that needs it not", out)
	}
	cl.must(cli.ExitOK, "schema", "verify", "documents", "by-url")
}

func TestSchemaUsage(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, nil)
	for _, wrong := range [][]string{
		{"schema", "apply"}, {"schema", "diff", "a", "b"}, {"schema", "diff", "none.yaml"}, {"schema", "apply", "none.yaml"},
		{"schema", "diff", webSchema, "-o", "xml"}, {"schema", "apply", webSchema, "-o", "xml"}, {"schema", "show", "-o", "xml"},
		{"schema", "show", "--project="}, {"schema", "diff", webSchema, "--timeout", "0s"}, {"schema", "apply", webSchema, "--timeout", "-1s"},
		{"schema", "backfill", "documents"}, {"schema", "verify", "documents"}, {"schema", "show", "x"}, {"schema", "nonsense"},
		{"schema", "apply", webSchema, "--backup-days", "1"}, {"schema", "apply", webSchema, "--backup-days", "-3"}, {"init", "--backup-days", "91"},
	} {
		cl.must(cli.ExitUsage, wrong...)
	}
	cl.must(cli.ExitOK, "schema", "apply", webSchema, "--yes")
	for _, wrong := range [][]string{
		{"schema", "backfill", "documents", "i", "--concurrency", "65"}, {"schema", "backfill", "documents", "i", "-o", "xml"},
		{"schema", "verify", "documents", "i", "--limit", "-1"}, {"schema", "verify", "documents", "i", "--as-of", "yesterday"},
	} {
		cl.must(cli.ExitUsage, wrong...)
	}
	cl.must(cli.ExitUsage, "schema", "verify", "documents", "none")
	cl.must(cli.ExitUnavailable, "schema", "verify", "documents", "none", "--tso", "127.0.0.1:1", "--timeout", "300ms")
	if ddl := cl.must(cli.ExitOK, "schema", "show", "--spanner-ddl").out; strings.Count(ddl, "CREATE TABLE") != 2 {
		t.Errorf("printed %q", ddl)
	}
}

// What schema apply creates cannot be deleted; emulators keep no policy of backups.
func TestSchemaApplyProtects(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, nil)
	cl.must(cli.ExitOK, "schema", "apply", webSchema, "--yes", "--deletion-protection", "--backup-days", "7")
	cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		for _, name := range []string{"documents", "percolator_journal"} {
			info, err := admin.TableInfo(ctx, name)
			if err != nil {
				return err
			}
			if info.DeletionProtection != bigtable.Protected {
				t.Errorf("table %s is not protected", name)
			}
		}
		return nil
	})
}

// An index whose Bigtable table was lost is not believed when the table is there again, and can be
// filled.
func TestSchemaApplyLostIndex(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSchemaApplyLostIndex)
}

func testSchemaApplyLostIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.yaml")
	text := "tables: [{name: documents, indexes: [{name: by-url, column: url}]}]\ntiming: {requestLifetime: 2s, metaMaxAge: 2s}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cl := newCluster(t, nil)
	cl.must(cli.ExitOK, "schema", "apply", file, "--yes")
	cl.client = cl.newClient(percolator.Config{})
	cl.set(map[percolator.Cell]string{{Table: "documents", Row: "a", Column: "url"}: "u1"})
	cl.dropTable("documents.by-url")
	if r := cl.must(cli.ExitOK, "schema", "apply", file, "--yes"); !strings.Contains(r.out, "schema backfill documents by-url") {
		t.Errorf("the backfill is not named: %q", r.out)
	}
	cl.must(cli.ExitFailure, "scan", "documents", "--index", "by-url")
	cl.must(cli.ExitOK, "schema", "backfill", "documents", "by-url")
	cl.must(cli.ExitOK, "schema", "verify", "documents", "by-url")
	if r := cl.must(cli.ExitOK, "scan", "documents", "--index", "by-url"); !strings.Contains(r.out, "u1") {
		t.Errorf("the index shows %q", r.out)
	}
}
