package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"sigs.k8s.io/yaml"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

var update = flag.Bool("update", false, "write ddl/ and testdata/ anew")

// limit bounds whatever a test waits for.
const limit = 2 * time.Minute

// plannedTable is a table as the module in modules/tables describes it.
type plannedTable struct {
	Families []string `json:"families"`
	Splits   []string `json:"splits"`
	Versions int      `json:"versions"` // 0: all
}

var schemaFiles = []string{
	"examples/small/schema.yaml", "examples/production/schema.yaml", "modules/tables/tests/testdata/all.yaml", "modules/tables/tests/testdata/json.yaml",
	"modules/tables/tests/testdata/unjournaled.yaml",
}

// hasTerraform reports whether there is a terraform to ask.
func hasTerraform() bool {
	_, err := exec.LookPath("terraform")
	return err == nil
}

// terraform runs terraform in dir, which needs no provider, and returns what it prints.
func terraform(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "terraform", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_DATA_DIR="+t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("terraform %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return out.String()
}

// evaluate returns the value of an expression in a module that needs no provider. Variables are
// NAME=VALUE.
func evaluate[T any](t *testing.T, dir, expression string, variables ...string) (out T) {
	t.Helper()
	args := []string{"console", "-no-color"}
	for _, v := range variables {
		args = append(args, "-var", v)
	}
	printed := terraform(t, dir, "jsonencode("+expression+")", args...)
	var text string
	if err := json.Unmarshal([]byte(printed), &text); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// store writes what terraform evaluates, for machines without it.
func store(t *testing.T, path string, value any) {
	t.Helper()
	out, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// planned returns the tables that the module creates for a schema file: as terraform evaluates it
// now, which testdata/tables.json has to repeat, or what is there on machines without terraform.
func planned(t *testing.T, file string) map[string]plannedTable {
	t.Helper()
	const golden = "testdata/tables.json"
	stored := map[string]map[string]plannedTable{}
	if text, err := os.ReadFile(golden); err == nil {
		if err := json.Unmarshal(text, &stored); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	if !hasTerraform() {
		if stored[file] == nil {
			t.Fatalf("%s has nothing for %s", golden, file)
		}
		return stored[file]
	}
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	tables := evaluate[map[string]plannedTable](t, "modules/tables", "{for n, v in local.tables : n => v[0]}", "schema_file="+path)
	if *update {
		stored[file] = tables
		store(t, golden, stored)
	}
	if got, want := fmt.Sprint(tables), fmt.Sprint(stored[file]); got != want {
		t.Fatalf("%s: terraform plans %s, %s has %s: run the test with -update", file, got, golden, want)
	}
	return tables
}

// schemaOf reads a schema file as percolator schema apply does, as far as tables are concerned.
func schemaOf(t *testing.T, file string) *percolator.Schema {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Tables []struct {
			percolator.Table
			Columns any `json:"columns"` // these concern values, and no tables
			TTL     any `json:"ttl"`
			Queue   any `json:"queue"`

			NotifyExpired any `json:"notifyExpired"`
		} `json:"tables"`
		Timing any `json:"timing"`

		DisableJournal bool `json:"disableJournal"`
	}
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		t.Fatal(err)
	}
	schema := &percolator.Schema{DisableJournal: s.DisableJournal}
	for _, table := range s.Tables {
		schema.Tables = append(schema.Tables, table.Table)
	}
	return schema
}

// stored is what an instance has: of each table the families with their GC policies.
type stored map[string][]string

func readTables(t *testing.T, ctx context.Context, admin *bigtable.AdminClient) stored {
	t.Helper()
	names, err := admin.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := stored{}
	for _, name := range names {
		info, err := admin.TableInfo(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = []string{}
		for _, f := range info.FamilyInfos {
			out[name] = append(out[name], f.Name+" "+f.GCPolicy)
		}
		slices.Sort(out[name])
	}
	return out
}

// The tables that terraform plans are those that CreateSchema makes; and CreateSchema finds nothing
// to change in tables that were created as terraform creates them.
func TestTablesAreThoseOfCreateSchema(t *testing.T) {
	for _, file := range schemaFiles {
		tables := planned(t, file)
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			schema := schemaOf(t, file)

			byCode, admin := newInstance(t, ctx)
			if err := percolator.CreateSchema(ctx, "p", "i", schema, byCode.ClientOptions()...); err != nil {
				t.Fatal(err)
			}
			want := readTables(t, ctx, admin)

			byTerraform, admin := newInstance(t, ctx)
			for _, name := range slices.Sorted(maps.Keys(tables)) {
				conf := &bigtable.TableConf{TableID: name, SplitKeys: tables[name].Splits, Families: map[string]bigtable.GCPolicy{}}
				for _, f := range tables[name].Families {
					conf.Families[f] = bigtable.NoGcPolicy() // a column_family of google_bigtable_table without a google_bigtable_gc_policy
					if n := tables[name].Versions; n > 0 {
						conf.Families[f] = bigtable.MaxVersionsPolicy(n)
					}
				}
				if err := admin.CreateTableFromConf(ctx, conf); err != nil {
					t.Fatal(err)
				}
			}
			before := readTables(t, ctx, admin)
			if fmt.Sprint(before) != fmt.Sprint(want) {
				t.Errorf("terraform makes\n%v\nCreateSchema makes\n%v", before, want)
			}
			if err := percolator.CreateSchema(ctx, "p", "i", schema, byTerraform.ClientOptions()...); err != nil {
				t.Fatalf("on the tables of terraform: %v", err)
			}
			if after := readTables(t, ctx, admin); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("CreateSchema has changed\n%v\ninto\n%v", before, after)
			}
			for _, table := range schema.Tables {
				if got := tables[table.Name].Splits; !slices.Equal(got, table.Splits) {
					t.Errorf("table %s: splits %q, want %q", table.Name, got, table.Splits)
				}
			}
		})
	}
}

func newInstance(t *testing.T, ctx context.Context) (*emulator.Server, *bigtable.AdminClient) {
	t.Helper()
	server, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	return server, admin
}
