package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// checker is what checks work with, and what several of them need.
type checker struct {
	flags     *checkFlags
	client    *percolator.Client // nil: clientErr says why
	clientErr error
	now       func() time.Time
	wanted    *percolator.Schema // of --schema

	storedSchema func() (model.StoredSchema, error) // asked once
	tables       func() ([]checkedTable, error)     // asked once
	running      func() (running, error)            // asked once
}

// checkedTable is percolator_meta, the journal, or a table that the schema asks for.
type checkedTable struct {
	name     string
	exists   bool
	policies map[string]string // of garbage collection, by column family
}

// askSchema needs no oracle.
func (x *checker) askSchema(ctx context.Context) (model.StoredSchema, error) {
	stored, err := x.flags.ReadSchema(ctx)
	if err == nil && stored.Schema == nil {
		err = errors.New("no schema is stored")
	}
	return stored, err
}

// Bounds of questions about tables and app profiles.
const (
	tablesAtOnce = 8 // that are asked about side by side
	adminTimeout = 30 * time.Second
)

func (x *checker) askTables(ctx context.Context) ([]checkedTable, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	tables := []checkedTable{{name: metaTable}}
	if stored, err := x.storedSchema(); err == nil {
		if !stored.Schema.DisableJournal {
			tables = append(tables, checkedTable{name: model.JournalTable})
		}
		tables = append(tables, ordered.Map(catalog.AllTables(stored.Schema), func(name string) checkedTable { return checkedTable{name: name} })...)
	}
	admin, err := bigtable.NewAdminClient(ctx, x.flags.Project, x.flags.Instance, cli.BigtableOptions(ctx)...)
	if err != nil {
		return nil, emulatorhost.Credentials(err)
	}
	defer func() { _ = admin.Close() }()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(tablesAtOnce)
	for i := range tables {
		g.Go(func() error { return tables[i].ask(gctx, admin) })
	}
	return tables, g.Wait()
}

func (t *checkedTable) ask(ctx context.Context, admin *bigtable.AdminClient) error {
	info, err := admin.TableInfo(ctx, t.name)
	switch {
	case status.Code(err) == codes.NotFound:
		return nil
	case err != nil:
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	t.exists, t.policies = true, map[string]string{}
	for _, f := range info.FamilyInfos {
		t.policies[f.Name] = f.GCPolicy
	}
	return nil
}

// cannot is the result of a check that the store or the oracle does not let be carried out.
func cannot(err error) []health.Finding {
	return health.Cannot(cli.ShortError(err))
}

func checkConnection(_ context.Context, x *checker) []health.Finding {
	if x.client == nil {
		return []health.Finding{health.Found(health.Failed, "percolator tso status", "%s", cli.ShortError(x.clientErr))}
	}
	return health.Fine("instance %s/%s and the oracle at %s answer", x.flags.Project, x.flags.Instance, x.flags.Oracle.Targets)
}

func checkSchema(ctx context.Context, x *checker) []health.Finding {
	stored, err := x.storedSchema()
	file := x.flags.schema
	if err != nil {
		file = cmp.Or(file, "schema.yaml")
		return []health.Finding{health.Found(health.Failed, "percolator schema apply "+file, "%s", cli.ShortError(err))}
	}
	about := fmt.Sprintf("version %d, tables: %s", stored.Version, tableList(stored.Schema))
	if x.wanted == nil {
		return health.Fine("%s", about)
	}
	plan, err := x.flags.PlanSchema(ctx, x.wanted)
	if err != nil {
		return cannot(err)
	}
	if len(plan.Changes) == 0 {
		return health.Fine("%s; as %s says", about, file)
	}
	var out []health.Finding
	for _, ch := range plan.Changes {
		remedy := "percolator schema apply " + file
		what := strings.TrimSpace(string(ch.Kind) + " " + ch.Table + " " + cli.ShownName(ch.Name))
		if ch.Err() != nil {
			remedy = "percolator schema show > " + file
		}
		out = append(out, health.Found(health.Failed, remedy, "%s differs from version %d: %s", file, stored.Version, what))
	}
	return out
}

func tableList(s *percolator.Schema) string {
	if len(s.Tables) == 0 {
		return "none"
	}
	return strings.Join(catalog.AllTables(s), ", ")
}

// Families that tables have; see percolator.CreateSchema.
const metaTable = "percolator_meta"

func (t checkedTable) families() []string {
	switch t.name {
	case metaTable:
		return []string{"meta", "oracle"}
	case model.JournalTable:
		return []string{"journal"}
	}
	return []string{"data", "lock", "write", "notify"}
}

// eachTable calls do for percolator_meta, the journal and each table of the schema; fine is what it
// saw if nothing is found.
func (x *checker) eachTable(fine string, do func(t checkedTable) []health.Finding) []health.Finding {
	tables, err := x.tables()
	if err != nil {
		return cannot(err)
	}
	var out []health.Finding
	if _, err := x.storedSchema(); err != nil {
		out = cannot(fmt.Errorf("the tables of the schema: %w", err))
	}
	for _, t := range tables {
		out = append(out, do(t)...)
	}
	return health.ElseFine(out, "tables: %d, %s", len(tables), fine)
}

// createsWhatIsMissing adds tables and families that the stored schema should have.
const createsWhatIsMissing = "percolator schema show > schema.yaml && percolator schema apply schema.yaml"

func checkFamilies(_ context.Context, x *checker) []health.Finding {
	return x.eachTable("with all column families", func(t checkedTable) (out []health.Finding) {
		remedy := createsWhatIsMissing
		if t.name == metaTable {
			remedy = "percolator init"
		}
		if !t.exists {
			return []health.Finding{health.Found(health.Failed, remedy, "table %s does not exist", t.name)}
		}
		for _, family := range t.families() {
			if _, ok := t.policies[family]; !ok {
				out = append(out, health.Found(health.Failed, remedy, "table %s lacks the column family %s", t.name, family))
			}
		}
		return out
	})
}

// checkGCPolicies: any policy of Bigtable's own removes what is still needed. An age compares our
// timestamps with its clock, a number of versions counts records that change nothing
// (docs/internals/PROTOCOL.md, "Cells"). In percolator_meta, where all cells of a column share a
// timestamp, a number of versions removes nothing. In the journal, where the newest version of a
// cell counts, it removes the others.
func checkGCPolicies(_ context.Context, x *checker) []health.Finding {
	return x.eachTable("none has a policy that removes needed cells", func(t checkedTable) (out []health.Finding) {
		for _, family := range t.families() {
			policy, exists := t.policies[family]
			level := t.harm(policy)
			if !exists || level == health.OK {
				continue
			}
			wanted := "never"
			if t.name == model.JournalTable {
				wanted = "maxversions=1"
			}
			remedy := fmt.Sprintf("cbt -project %s -instance %s setgcpolicy %s %s %s", x.flags.Project, x.flags.Instance, t.name, family, wanted)
			if collectsNothing(policy) {
				out = append(out, health.Found(level, remedy, "Bigtable keeps every version in family %s of table %s", family, t.name))
				continue
			}
			out = append(out, health.Found(level, remedy, "Bigtable collects family %s of table %s: %s", family, t.name, policy))
		}
		return out
	})
}

// harm is how bad a policy is for a family of the table.
func (t checkedTable) harm(policy string) health.Level {
	switch byAge := strings.Contains(policy, "age"); {
	case byAge:
		return health.Failed
	case t.name == model.JournalTable && collectsNothing(policy):
		return health.Warning
	case t.name == model.JournalTable, collectsNothing(policy):
		return health.OK
	case t.name == metaTable:
		return health.Warning
	}
	return health.Failed
}

func collectsNothing(policy string) bool {
	return policy == "" || policy == bigtable.GCRuleToString(nil)
}

func checkIndexes(_ context.Context, x *checker) []health.Finding {
	stored, err := x.storedSchema()
	if err != nil {
		return cannot(err)
	}
	var out []health.Finding
	n := 0
	for _, t := range stored.Schema.Tables {
		for _, ix := range t.Indexes {
			n++
			if stored.Indexes[t.Name+"."+ix.Name].Building {
				out = append(out, health.Found(health.Warning, cli.BackfillCommand(t.Name, ix.Name),
					"index %s of table %s is being built: it cannot be read", ix.Name, t.Name))
			}
		}
	}
	return health.ElseFine(out, "indexes: %d, all complete", n)
}
