package terraform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// grant is a role of an identity with its permissions, on the instance or on a table.
type grant struct {
	on          string // "instance", or "tables/NAME"
	role        string
	permissions []string
}

// grantsCase is one call of modules/grants. The tables are those that the schema file has.
type grantsCase struct {
	name, schemaFile string
	variables        map[string]any
}

var grantsCases = []grantsCase{
	{"production", "examples/production/schema.yaml", map[string]any{
		"reader_members":   map[string][]string{"group:readers@example.com": {"documents"}},
		"operator_members": []string{"group:operators@example.com"},
		"worker_members":   map[string][]string{"serviceAccount:words@example.com": {"words"}},
	}},
	{"small", "examples/small/schema.yaml", map[string]any{"oracle_store": "bigtable"}},
}

// granted returns what every identity of the module may do: as terraform evaluates it now, which
// testdata/grants.json has to repeat, or what is there on machines without terraform.
func granted(t *testing.T, c grantsCase) map[string][]grant {
	t.Helper()
	const golden = "testdata/grants.json"
	stored := map[string]map[string][]string{}
	if text, err := os.ReadFile(golden); err == nil {
		if err := json.Unmarshal(text, &stored); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	if !hasTerraform() {
		if stored[c.name] == nil {
			t.Fatalf("%s has nothing for %s", golden, c.name)
		}
		return withPermissions(t, stored[c.name])
	}
	tables := slices.Sorted(maps.Keys(planned(t, c.schemaFile)))
	variables := maps.Clone(c.variables)
	variables["journaled"] = slices.Contains(tables, journalTable)
	variables["tables"] = slices.DeleteFunc(tables, func(name string) bool { return name == metaTable || name == journalTable })
	var args []string
	for name, value := range variables {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, name+"="+strings.Trim(string(text), `"`))
	}
	const onAndRole = `{for who, grants in local.identities : who => [for g in grants : "${g.on} ${g.role}"]}`
	identities := evaluate[map[string][]string](t, "modules/grants", onAndRole, args...)
	if *update {
		stored[c.name] = identities
		store(t, golden, stored)
	}
	if got, want := fmt.Sprint(identities), fmt.Sprint(stored[c.name]); got != want {
		t.Fatalf("%s: terraform grants\n%s\n%s has\n%s\nrun the test with -update", c.name, got, golden, want)
	}
	return withPermissions(t, identities)
}

// withPermissions looks up the roles: those of the module's own and those of Google.
func withPermissions(t *testing.T, identities map[string][]string) map[string][]grant {
	t.Helper()
	var roles struct {
		Custom map[string]struct {
			Description string   `json:"description"`
			Permissions []string `json:"permissions"`
		} `json:"custom"`
		Predefined map[string][]string `json:"predefined"`
	}
	if err := json.Unmarshal([]byte(read(t, "modules/grants/roles.json")), &roles); err != nil {
		t.Fatal(err)
	}
	out := map[string][]grant{}
	for who, grants := range identities {
		for _, g := range grants {
			on, role, _ := strings.Cut(g, " ")
			permissions := roles.Predefined[role]
			if own, ok := roles.Custom[role]; ok {
				permissions = own.Permissions
			}
			if len(permissions) == 0 {
				t.Fatalf("%s has the role %q, whose permissions nobody knows", who, role)
			}
			out[who] = append(out[who], grant{on, role, permissions})
		}
	}
	return out
}

const (
	metaTable    = "percolator_meta"
	journalTable = "percolator_journal"
	ping         = "bigtable.instances.ping"
	mutateRows   = "bigtable.tables.mutateRows"
	readRows     = "bigtable.tables.readRows"
)

// has reports whether one of the grants on a resource carries the permission.
func has(grants []grant, on, permission string) bool {
	return slices.ContainsFunc(grants, func(g grant) bool {
		return g.on == on && slices.Contains(g.permissions, permission)
	})
}

// Whoever reads or writes a table can open a connection first, which takes a permission of the
// instance, reads percolator_meta, and has no right to data on the instance. Who writes a table
// writes percolator_meta and percolator_journal, and its indexes with the table.
func TestIdentitiesCanConnect(t *testing.T) {
	fixture.Long(t)
	for _, c := range grantsCases {
		identities := granted(t, c)
		tables := planned(t, c.schemaFile)
		if len(identities) < 4 {
			t.Errorf("%s: %d identities", c.name, len(identities))
		}
		for who, grants := range identities {
			if !has(grants, "instance", ping) {
				t.Errorf("%s: %s cannot open a connection", c.name, who)
			}
			for _, permission := range []string{readRows, mutateRows} {
				if has(grants, "instance", permission) {
					t.Errorf("%s: %s has %s on the whole instance", c.name, who, permission)
				}
			}
			if !has(grants, "tables/"+metaTable, readRows) {
				t.Errorf("%s: %s cannot read %s", c.name, who, metaTable)
			}
			for name := range tables {
				table, _, _ := strings.Cut(name, ".")
				if has(grants, "tables/"+name, mutateRows) != has(grants, "tables/"+table, mutateRows) {
					t.Errorf("%s: %s writes one of %s and %s", c.name, who, table, name)
				}
				for _, shared := range []string{metaTable, journalTable} {
					if _, there := tables[shared]; there && name != metaTable && has(grants, "tables/"+name, mutateRows) && !has(grants, "tables/"+shared, mutateRows) {
						t.Errorf("%s: %s writes %s, and not %s", c.name, who, name, shared)
					}
				}
			}
			for _, g := range grants {
				if table, ok := strings.CutPrefix(g.on, "tables/"); ok {
					if _, ok := tables[table]; !ok {
						t.Errorf("%s: %s has %s on %s, which the schema does not have", c.name, who, g.role, table)
					}
				} else if g.on != "instance" {
					t.Errorf("%s: %s has a role on %q", c.name, who, g.on)
				}
			}
		}
	}
}
