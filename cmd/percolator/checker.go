package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// checker is what checks work with, and what several of them need.
type checker struct {
	flags     *checkFlags
	client    *percolator.Client // nil: clientErr says why
	clientErr error
	now       func() time.Time
	wanted    *percolator.Schema // of --schema

	schemaOnce sync.Once
	stored     admin.StoredSchema
	schemaErr  error

	tablesOnce sync.Once
	tables     map[string]*bigtable.TableInfo // those that exist
	tablesErr  error
}

// storedSchema reads the schema, once; it needs no oracle.
func (x *checker) storedSchema(ctx context.Context) (admin.StoredSchema, error) {
	x.schemaOnce.Do(func() {
		x.stored, x.schemaErr = x.flags.readSchema(ctx)
		if x.schemaErr == nil && x.stored.Schema == nil {
			x.schemaErr = errors.New("no schema is stored")
		}
	})
	return x.stored, x.schemaErr
}

// tableInfos asks for the tables of the schema and percolator_meta, once.
func (x *checker) tableInfos(ctx context.Context) (map[string]*bigtable.TableInfo, error) {
	x.tablesOnce.Do(func() { x.tables, x.tablesErr = x.askTables(ctx) })
	return x.tables, x.tablesErr
}

// Bounds of questions about tables and app profiles.
const (
	tablesAtOnce = 8 // that are asked about side by side
	adminTimeout = 30 * time.Second
)

func (x *checker) askTables(ctx context.Context) (map[string]*bigtable.TableInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	names := []string{metaTable}
	if stored, err := x.storedSchema(ctx); err == nil {
		names = append(names, storedTables(stored.Schema)...)
	}
	admin, err := bigtable.NewAdminClient(ctx, x.flags.project, x.flags.instance, bigtableOptions(ctx)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = admin.Close() }()
	infos := make([]*bigtable.TableInfo, len(names))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(tablesAtOnce)
	for i, name := range names {
		g.Go(func() error {
			info, err := admin.TableInfo(gctx, name)
			switch {
			case status.Code(err) == codes.NotFound:
				return nil
			case err != nil:
				return fmt.Errorf("table %s: %w", name, err)
			}
			infos[i] = info
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]*bigtable.TableInfo{}
	for i, name := range names {
		if infos[i] != nil {
			out[name] = infos[i]
		}
	}
	return out, nil
}

// cannot is the result of a check that the store or the oracle does not let be carried out.
func cannot(err error) []finding {
	return []finding{{Level: levelNotChecked, Saw: shortError(err), unable: true}}
}

func checkConnection(_ context.Context, x *checker) []finding {
	if x.client == nil {
		return []finding{found(levelFailed, "percolator tso status", "%s", shortError(x.clientErr))}
	}
	return sawOK("instance %s/%s and the oracle at %s answer", x.flags.project, x.flags.instance, x.flags.oracle.targets)
}

func checkSchema(ctx context.Context, x *checker) []finding {
	stored, err := x.storedSchema(ctx)
	file := x.flags.schema
	if err != nil {
		if file == "" {
			file = "schema.yaml"
		}
		return []finding{found(levelFailed, "percolator schema apply "+file, "%s", shortError(err))}
	}
	about := fmt.Sprintf("version %d, tables: %s", stored.Version, tableList(stored.Schema))
	if x.wanted == nil {
		return sawOK("%s", about)
	}
	plan, err := x.flags.planSchema(ctx, x.wanted)
	if err != nil {
		return cannot(err)
	}
	if len(plan.Changes) == 0 {
		return sawOK("%s; as %s says", about, file)
	}
	var out []finding
	for _, ch := range plan.Changes {
		remedy := "percolator schema apply " + file
		what := strings.TrimSpace(string(ch.Kind) + " " + ch.Table + " " + shownName(ch.Name))
		if ch.Err() != nil {
			remedy = "percolator schema show > " + file
		}
		out = append(out, found(levelFailed, remedy, "%s differs from version %d: %s", file, stored.Version, what))
	}
	return out
}

func tableList(s *percolator.Schema) string {
	if len(s.Tables) == 0 {
		return "none"
	}
	return strings.Join(storedTables(s), ", ")
}

// Families that tables have; see percolator.CreateSchema.
const metaTable = "percolator_meta"

var (
	cellFamilies = []string{"data", "lock", "write", "notify"}
	metaFamilies = []string{"meta", "oracle"}
)

func familiesOf(table string) []string {
	if table == metaTable {
		return metaFamilies
	}
	return cellFamilies
}

// eachTable calls do for percolator_meta and each table of the schema; fine is what it saw if
// nothing is found.
func (x *checker) eachTable(ctx context.Context, fine string, do func(table string, info *bigtable.TableInfo) []finding) []finding {
	infos, err := x.tableInfos(ctx)
	if err != nil {
		return cannot(err)
	}
	names := []string{metaTable}
	var out []finding
	if stored, err := x.storedSchema(ctx); err == nil {
		names = append(names, storedTables(stored.Schema)...)
	} else {
		out = cannot(fmt.Errorf("the tables of the schema: %w", err))
	}
	for _, name := range names {
		out = append(out, do(name, infos[name])...)
	}
	if len(out) == 0 {
		return sawOK("tables: %d, %s", len(names), fine)
	}
	return out
}

// createsWhatIsMissing adds tables and families that the stored schema should have.
const createsWhatIsMissing = "percolator schema show > schema.yaml && percolator schema apply schema.yaml"

func checkFamilies(ctx context.Context, x *checker) []finding {
	return x.eachTable(ctx, "with all column families", func(table string, info *bigtable.TableInfo) (out []finding) {
		remedy := createsWhatIsMissing
		if table == metaTable {
			remedy = "percolator init"
		}
		if info == nil {
			return []finding{found(levelFailed, remedy, "table %s does not exist", table)}
		}
		for _, family := range familiesOf(table) {
			if !slices.ContainsFunc(info.FamilyInfos, func(f bigtable.FamilyInfo) bool { return f.Name == family }) {
				out = append(out, found(levelFailed, remedy, "table %s lacks the column family %s", table, family))
			}
		}
		return out
	})
}

// checkGCPolicies: any policy of Bigtable's own removes what is still needed. An age compares our
// timestamps with its clock, a number of versions counts records that change nothing
// (docs/PROTOCOL.md, "Cells"). In percolator_meta, where all cells of a column share a timestamp, a
// number of versions removes nothing.
func checkGCPolicies(ctx context.Context, x *checker) []finding {
	d := x.flags
	return x.eachTable(ctx, "none has a policy", func(table string, info *bigtable.TableInfo) (out []finding) {
		if info == nil {
			return nil
		}
		for _, family := range familiesOf(table) {
			i := slices.IndexFunc(info.FamilyInfos, func(f bigtable.FamilyInfo) bool { return f.Name == family })
			if i < 0 || slices.Contains([]string{"", bigtable.GCRuleToString(nil)}, info.FamilyInfos[i].GCPolicy) {
				continue
			}
			f := info.FamilyInfos[i]
			level := levelFailed
			if table == metaTable && !strings.Contains(f.GCPolicy, "age") {
				level = levelWarning
			}
			remedy := fmt.Sprintf("cbt -project %s -instance %s setgcpolicy %s %s never", d.project, d.instance, table, f.Name)
			out = append(out, found(level, remedy, "Bigtable collects family %s of table %s: %s", f.Name, table, f.GCPolicy))
		}
		return out
	})
}

func checkIndexes(ctx context.Context, x *checker) []finding {
	stored, err := x.storedSchema(ctx)
	if err != nil {
		return cannot(err)
	}
	var out []finding
	n := 0
	for _, t := range stored.Schema.Tables {
		for _, ix := range t.Indexes {
			n++
			if stored.Indexes[t.Name+"."+ix.Name].Building {
				out = append(out, found(levelWarning, backfillCommand(t.Name, ix.Name),
					"index %s of table %s is being built: it cannot be read", ix.Name, t.Name))
			}
		}
	}
	if len(out) == 0 {
		return sawOK("indexes: %d, all complete", n)
	}
	return out
}
