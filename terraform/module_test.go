package terraform_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/tso/spannerstore"
)

// The statements that terraform gives to Spanner are those of the code.
func TestSpannerStatements(t *testing.T) {
	t.Parallel()
	want := spannerstore.Statements()
	if *update {
		for i, s := range want {
			if err := os.WriteFile(fmt.Sprintf("ddl/%d-%s.sql", i+1, tableOf(t, s)), []byte(s+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob("ddl/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimSpace(read(t, f)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("ddl/ has\n%s\nthe code has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func tableOf(t *testing.T, statement string) string {
	t.Helper()
	m := regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS (\w+)`).FindStringSubmatch(statement)
	if m == nil {
		t.Fatalf("what does this create? %s", statement)
	}
	return m[1]
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// configuration is the text of all files of a suffix in the module, its submodule and its examples.
func configuration(t *testing.T, suffix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".terraform" {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, suffix) {
			out[path] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Nothing in Bigtable but the journal is collected natively, no table has a change stream or
// another type of cells, no app profile routes to any cluster, and no role is given that includes
// more than the README says.
func TestWhatTheModuleMustNotHave(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(strings.Join([]string{
		`resource "google_bigtable_gc_policy"`,
		`gc_rules`,
		`\bmulti_cluster_routing_use_any +=`,
		`_iam_(policy|binding)"`,
		`roles/(owner|editor|bigtable\.admin|spanner\.(admin|databaseAdmin))`,
		`google_service_account_key`,
		`access_config \{`,
		`default_time_zone`,
	}, "|"))
	files := configuration(t, ".tf")
	if len(files) < 15 {
		t.Fatalf("%d files", len(files))
	}
	for path, text := range files {
		for i, line := range strings.Split(text, "\n") {
			if path == "tables.tf" && line == `resource "google_bigtable_gc_policy" "journal" {` {
				continue
			}
			if m := forbidden.FindString(line); m != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				t.Errorf("%s:%d: %s", path, i+1, m)
			}
		}
	}
}

// No mock shows an order, so the text has to: an instance waits until its service may use the key,
// a server has its rights before it starts, and the rights of all are those of modules/grants.
func TestTextHasTheOrder(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"bigtable.tf":                 {`depends_on = [terraform_data.key_granted]`},
		"spanner.tf":                  {`depends_on = [terraform_data.key_granted]`},
		"secrets.tf":                  {`depends_on = [terraform_data.key_granted]`},
		"encryption.tf":               {`triggers_replace = { for name, grant in google_kms_crypto_key_iam_member.encryption :`, `command = "sleep ${var.iam_wait}"`},
		"oracle.tf":                   {`depends_on = [terraform_data.key_granted]`, "google_bigtable_instance_iam_member.percolator,", "google_bigtable_table_iam_member.percolator,"},
		"iam.tf":                      {"for_each = module.grants.on_tables\n", "for_each = module.grants.on_instance\n"},
		"examples/small/main.tf":      {"depends_on = [module.services]\n}"},
		"modules/services/main.tf":    {`command = "sleep ${var.api_wait}"`, "depends_on  = [terraform_data.ready]"},
		"examples/production/main.tf": {"depends_on    = [module.services, terraform_data.repository_key_granted]", "service_agents      = module.service_agents.members", "depends_on = [module.services]\n}"},
	} {
		for _, w := range want {
			if !strings.Contains(read(t, file), w) {
				t.Errorf("%s lacks %q", file, w)
			}
		}
	}
	roles := regexp.MustCompile(`"(?:google_bigtable_(?:table|instance)|google_project)_iam_(?:member|custom_role)"`)
	for file, text := range configuration(t, ".tf") {
		if n := len(roles.FindAllString(text, -1)); n > 0 && file != "iam.tf" && file != "service_accounts.tf" {
			t.Errorf("%s grants rights that modules/grants does not know", file)
		}
	}
}

// Every flag that the machines give to the server is one of percolator tso serve, as its help says.
func TestServerFlags(t *testing.T) {
	t.Parallel()
	help := read(t, "../cmd/percolator/testdata/help/percolator_tso_serve.txt")
	flags := regexp.MustCompile(`"(--[a-z-]+)`).FindAllStringSubmatch(read(t, "oracle.tf"), -1)
	if len(flags) < 10 {
		t.Fatalf("found %d flags", len(flags))
	}
	for _, f := range flags {
		if !regexp.MustCompile(`(?m)^ +(?:--\S+ )*` + f[1] + `\b`).MatchString(help) {
			t.Errorf("percolator tso serve has no %s", f[1])
		}
	}
}

var declared = regexp.MustCompile(`(?m)^(variable|output) "([a-z_]+)" \{\n  description = "(.+)"$`)

// The README names every variable and output, and none that does not exist, in bold what is
// required. The module describes each.
func TestReadmeNamesInputsAndOutputs(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	for section, file := range map[string]string{"### Inputs\n": "variables.tf", "### Outputs\n": "outputs.tf"} {
		text := read(t, file)
		want := map[string]string{} // by name
		for _, block := range regexp.MustCompile(`(?ms)^(?:variable|output) "([a-z_]+)" \{\n(.*?)^\}`).FindAllStringSubmatch(text, -1) {
			if file == "variables.tf" && !regexp.MustCompile(`(?m)^  default +=`).MatchString(block[2]) {
				want[block[1]] = "**"
			} else {
				want[block[1]] = ""
			}
		}
		if described := len(declared.FindAllString(text, -1)); described != len(want) || described == 0 {
			t.Errorf("%s: %d of %d have a description in the first line", file, described, len(want))
		}
		_, part, found := strings.Cut(readme, section)
		if !found {
			t.Fatalf("no section %q", section)
		}
		part, _, _ = strings.Cut(part, "\n#")
		got := map[string]string{}
		for _, m := range regexp.MustCompile("(\\*?\\*?)`([a-z_]+)`").FindAllStringSubmatch(part, -1) {
			got[m[2]] = m[1]
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s has %q, the README %q", file, want, got)
		}
	}
}

func TestFilesAreFormatted(t *testing.T) {
	t.Parallel()
	if !hasTerraform() {
		t.Log("no terraform on this machine: make terraform looks at the format")
		return
	}
	if out := terraform(t, ".", "", "fmt", "-check", "-recursive", "-list=true"); out != "" {
		t.Errorf("not formatted: %s", out)
	}
}
