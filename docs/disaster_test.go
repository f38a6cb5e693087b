package docs_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

const standInDir = "GCLOUD_STAND_IN" // where the stand-in for gcloud keeps backups and its log

// TestDisasterRestore runs what docs/DISASTER.md says about a round of backups, a restore, copies
// and a failover, on the tables and names that the terraform module makes. gcloud is this test's
// binary (TestGcloudStandIn), terraform tells the tables that it plans for the production example.
func TestDisasterRestore(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	programs, err := fixture.Programs(ctx, root, "./cmd/percolator")
	if err != nil {
		t.Fatal(err)
	}
	tables := productionTables(t)
	d := drill{t: t, s: newShell(t, programs, ""), dir: t.TempDir(), page: map[string]string{}}
	for _, b := range readPage(t, "docs/DISASTER.md").blocks {
		if name := b.directive["page"]; name != "" {
			d.page[name] = b.text()
		}
	}
	d.install(tables)
	schema := filepath.Join(d.dir, "schema.yaml")
	write(t, schema, withShortTiming(read(t, "terraform/examples/production/schema.yaml")))
	d.s.run("DISASTER.md", command{line: "percolator dev --schema " + schema + " --instance percolator --bigtable 127.0.0.1:0 --oracle 127.0.0.1:0 --console off"},
		map[string]string{"background": "dev", "until": "PERCOLATOR_INSTANCE"})
	defer d.s.end()

	d.run(`percolator set documents one url a; percolator set documents two url b`)
	d.run(d.page["round"])
	d.run(`percolator set documents two url c; percolator del documents one url`)
	d.run(d.page["restore"])
	if got := d.run(`percolator scan documents --instance elsewhere`); !regexp.MustCompile(`(?s)one +url +\d+ +a\n.*two +url +\d+ +b\n`).MatchString(got) {
		t.Errorf("restored: %s", got)
	}
	if got := d.run(`percolator check --instance elsewhere --only families,gc-policies,schema`); strings.Contains(got, "failed") {
		t.Errorf("after the restore: %s", got)
	}
	d.run(d.page["copies"])
	d.run(d.page["point"])
	d.run(d.page["failover"])
	d.checkCalls(tables)
}

// drill is a shell with the page's commands.
type drill struct {
	t    *testing.T
	s    *shell
	dir  string
	page map[string]string // blocks by name
}

// install puts stand-ins for gcloud and terraform before all other programs.
func (d *drill) install(tables []string) {
	d.t.Helper()
	self, err := os.Executable()
	fixture.Must(d.t, err)
	list, err := json.Marshal(tables)
	fixture.Must(d.t, err)
	bin := filepath.Join(d.dir, "bin")
	fixture.Must(d.t, os.Mkdir(bin, 0o755))
	for name, script := range map[string]string{
		"gcloud":    fmt.Sprintf("exec %q -test.run='^TestGcloudStandIn$' -- \"$@\"", self),
		"terraform": fmt.Sprintf("test \"$*\" = 'output -json tables' && echo '%s'", list),
	} {
		fixture.Must(d.t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	for i, v := range d.s.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			d.s.env[i] = "PATH=" + bin + string(os.PathListSeparator) + path
		}
	}
	d.s.env = append(d.s.env, standInDir+"="+d.dir)
}

// run runs commands in a directory of the test and returns what they print.
func (d *drill) run(script string) string {
	d.t.Helper()
	if script == "" {
		d.t.Fatal("docs/DISASTER.md lacks a block")
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Dir, cmd.Env = d.dir, d.s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// checkCalls: every table was backed up, restored and copied, and both profiles were routed away
// before the cluster was deleted.
func (d *drill) checkCalls(tables []string) {
	d.t.Helper()
	log, err := os.ReadFile(filepath.Join(d.dir, "calls"))
	fixture.Must(d.t, err)
	got := strings.Fields(string(log))
	for _, table := range tables {
		for _, did := range []string{"create:" + table, "restore:elsewhere:" + table, "copy:far-c1:" + table} {
			if !slices.Contains(got, did) {
				d.t.Errorf("nobody did %s", did)
			}
		}
	}
	if end := got[len(got)-3:]; !slices.Equal(end, []string{"route:percolator:percolator-c2", "route:percolator-batch:percolator-c2", "delete:percolator-c1"}) {
		d.t.Errorf("the failover: %q", end)
	}
}

// productionTables are those that the module plans for the production example.
func productionTables(t *testing.T) []string {
	t.Helper()
	planned := map[string]map[string]any{}
	fixture.Must(t, json.Unmarshal([]byte(read(t, "terraform/testdata/tables.json")), &planned))
	tables := slices.Sorted(maps.Keys(planned["examples/production/schema.yaml"]))
	if !slices.Contains(tables, "percolator_journal") || !slices.Contains(tables, "percolator_meta") {
		t.Fatalf("tables: %q", tables)
	}
	return tables
}

func withShortTiming(schema string) string {
	return regexp.MustCompile(`(?m)^timing: .*$`).ReplaceAllString(schema, "timing: {requestLifetime: 2s, metaMaxAge: 2s}")
}

// TestGcloudStandIn is what a test has as gcloud: backups are files with the cells of a table of
// the emulator. Clusters and profiles are only written down.
func TestGcloudStandIn(t *testing.T) {
	dir := os.Getenv(standInDir)
	if dir == "" {
		t.Skip("only as gcloud of another test")
	}
	g := &standIn{t: t, dir: dir, flags: map[string]string{}}
	for _, a := range flag.Args() {
		if name, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "="); strings.HasPrefix(a, "--") && ok {
			g.flags[name] = value
		} else if !strings.HasPrefix(a, "--") {
			g.words = append(g.words, a)
		}
	}
	did := ""
	switch last := g.words[len(g.words)-1]; strings.Join(g.words[:len(g.words)-1], " ") {
	case "bigtable backups create":
		g.save(g.file(g.flags["cluster"], last), g.read(g.flags["instance"], g.flags["table"]))
		did = "create:" + g.flags["table"]
	case "bigtable backups":
		g.save(g.file(g.flags["destination-cluster"], g.flags["destination-backup"]), g.load(g.file(g.flags["source-cluster"], g.flags["source-backup"])))
		did = "copy:" + g.flags["destination-cluster"] + ":" + strings.TrimPrefix(g.flags["destination-backup"], "nightly-")
	case "bigtable instances tables":
		g.restore(g.flags["destination-instance"], g.flags["destination"], g.load(g.file(g.flags["source-cluster"], g.flags["source"])))
		did = "restore:" + g.flags["destination-instance"] + ":" + g.flags["destination"]
	case "bigtable app-profiles update":
		did = "route:" + last + ":" + g.flags["route-to"]
	case "bigtable clusters delete":
		did = "delete:" + last
	default:
		t.Fatalf("no such command: %q", flag.Args())
	}
	log, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fixture.Must(t, err)
	_, err = log.WriteString(did + "\n")
	fixture.Must(t, err)
	fixture.Must(t, log.Close())
}

type standIn struct {
	t     *testing.T
	dir   string
	words []string
	flags map[string]string
}

// savedTable is what a backup has of a table.
type savedTable struct {
	Families map[string]string // with their policies
	Cells    []bigtable.ReadItem
}

func (g *standIn) file(cluster, backup string) string {
	return filepath.Join(g.dir, cluster+"."+backup+".backup")
}

func (g *standIn) save(path string, s savedTable) {
	var out bytes.Buffer // keys need not be UTF-8
	fixture.Must(g.t, gob.NewEncoder(&out).Encode(s))
	fixture.Must(g.t, os.WriteFile(path, out.Bytes(), 0o600))
}

func (g *standIn) load(path string) (s savedTable) {
	text, err := os.ReadFile(path)
	fixture.Must(g.t, err)
	fixture.Must(g.t, gob.NewDecoder(bytes.NewReader(text)).Decode(&s))
	return s
}

func (g *standIn) open(ctx context.Context, instance string) (*bigtable.AdminClient, *bigtable.Client) {
	project := os.Getenv("PERCOLATOR_PROJECT")
	admin, err := bigtable.NewAdminClient(ctx, project, instance)
	fixture.Must(g.t, err)
	client, err := bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}})
	fixture.Must(g.t, err)
	return admin, client
}

func (g *standIn) read(instance, table string) savedTable {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	admin, client := g.open(ctx, instance)
	info, err := admin.TableInfo(ctx, table)
	fixture.Must(g.t, err)
	s := savedTable{Families: map[string]string{}}
	for _, f := range info.FamilyInfos {
		s.Families[f.Name] = f.GCPolicy
	}
	fixture.Must(g.t, client.Open(table).ReadRows(ctx, bigtable.RowRange{}, func(r bigtable.Row) bool {
		for _, cells := range r {
			s.Cells = append(s.Cells, cells...)
		}
		return true
	}))
	return s
}

// restore refuses a table that exists, as the service does.
func (g *standIn) restore(instance, table string, s savedTable) {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	admin, client := g.open(ctx, instance)
	conf := &bigtable.TableConf{TableID: table, Families: map[string]bigtable.GCPolicy{}}
	for f, policy := range s.Families {
		conf.Families[f] = bigtable.NoGcPolicy()
		if policy == "versions() > 1" {
			conf.Families[f] = bigtable.MaxVersionsPolicy(1)
		}
	}
	fixture.Must(g.t, admin.CreateTableFromConf(ctx, conf))
	for _, c := range s.Cells {
		family, column, _ := strings.Cut(c.Column, ":")
		m := bigtable.NewMutation()
		m.Set(family, column, c.Timestamp, c.Value)
		fixture.Must(g.t, client.Open(table).Apply(ctx, c.Row, m))
	}
}
