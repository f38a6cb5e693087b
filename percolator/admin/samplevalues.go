package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// How much SampleValues reads of a table: at most 16,000 rows and about 64 MiB, which takes a node
// about a second.
const (
	samplePlaces   = 16
	sampleRows     = 1000    // in each place
	sampleBytes    = 4 << 20 // in each place; its last row may exceed it
	sampleFindings = 100     // columns that are told of
	sampleKeys     = 5       // rows that are named with each
)

// ValueSample is what SampleValues has looked at in a table.
type ValueSample struct {
	Table  string
	Places int // of the table where rows were read
	Rows   int
	Values int // of the columns that get a type
	// Findings are the columns with something that the new schema does not allow, by name: at most
	// 100, the first that were seen.
	Findings []SampleFinding
}

// SampleFinding is a column that holds what the new schema does not allow.
type SampleFinding struct {
	Column string          // as the schema declares it, or as it is where it is not declared
	Type   percolator.Type // that the values do not have; "": the column is not declared
	Values int             // how many, of those that were looked at
	Rows   []string        // some of those that hold them, at most 5
}

// SampleValues checks stored values before ApplySchema, in each table in which s declares columns
// for the first time or gives a type to a column of bytes. It finds values that are not of the new
// type, and columns that s does not declare. plan is PlanSchema's result. It reads the newest
// committed values of the first 1,000 rows, or 4 MiB, in up to 16 places of a table, by requests
// that change nothing; it needs no oracle, and the right to read rows. It says nothing about values
// that it has not read. Errors: those of the store.
func (in Instance) SampleValues(ctx context.Context, plan model.SchemaPlan, s *percolator.Schema) ([]ValueSample, error) {
	tables := typedTables(plan)
	if len(tables) == 0 {
		return nil, nil
	}
	bt, err := store.Connect(ctx, in.Project, in.ID, in.AppProfile, in.Options)
	if err != nil {
		return nil, err
	}
	defer bt.Close()
	st := store.New(context.WithoutCancel(ctx), bt, &telemetry.Counters{})
	was, is := catalog.New(plan.Stored.Schema), catalog.New(s)
	samples := make([]ValueSample, len(tables))
	for i, table := range tables {
		sampler := sampler{ValueSample: ValueSample{Table: table}, was: was.Tables[table].Declared, is: is.Tables[table].Declared}
		if err := sampler.read(ctx, st); err != nil {
			return nil, err
		}
		samples[i] = sampler.ValueSample
	}
	return samples, nil
}

// typedTables are the tables of the stored schema that a plan gives types to, as far as they exist.
func typedTables(plan model.SchemaPlan) (tables []string) {
	none := map[string]bool{}
	for _, ch := range plan.Changes {
		none[ch.Table] = none[ch.Table] || ch.Kind == model.TableAdded || ch.Kind == model.BigtableTableMissing && ch.Name == ch.Table
	}
	for _, ch := range plan.Changes {
		if (ch.Kind == model.ColumnDeclared || ch.Kind == model.TypeChanged) && !none[ch.Table] && !slices.Contains(tables, ch.Table) {
			tables = append(tables, ch.Table)
		}
	}
	return tables
}

type sampler struct {
	ValueSample
	was, is *catalog.Declarations
}

func (s *sampler) read(ctx context.Context, st *store.Store) error {
	keys, err := st.SampleKeys(ctx, s.Table)
	if err != nil {
		return err
	}
	begins := somePlaces(keys)
	for i, begin := range begins {
		end := ""
		if i+1 < len(begins) {
			end = begins[i+1]
		}
		page, err := st.ReadPage(ctx, s.Table, model.Between(begin, end), store.Newest(nil, 0, 2), store.PageSize{Rows: sampleRows, Bytes: sampleBytes})
		if err != nil {
			return err
		}
		if len(page.Rows) > 0 {
			s.Places++
		}
		for _, row := range page.Rows {
			s.Rows++
			s.look(row)
		}
	}
	slices.SortFunc(s.Findings, func(a, b SampleFinding) int { return strings.Compare(a.Column, b.Column) })
	return nil
}

// somePlaces are the beginnings of as many parts of a table, each as many tablets.
func somePlaces(keys []string) []string {
	keys = slices.Compact(slices.Insert(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" }), 0, ""))
	n := min(len(keys), samplePlaces)
	places := make([]string, n)
	for i := range places {
		places[i] = keys[i*len(keys)/n]
	}
	return places
}

// look checks the newest committed values of a row. One under a lock counts as it was before.
func (s *sampler) look(row layout.Row) {
	versions := layout.DecodeRow(s.Table, row)
	for _, column := range versions.Columns() {
		if strings.HasPrefix(column, layout.Reserved) {
			continue
		}
		committed := *versions[column]
		committed.Locks = nil
		if len(committed.Writes) == 0 {
			continue
		}
		found := committed.At(committed.Writes[0].CommitTS, 2) // a value that has expired since counts, too
		if found.State != layout.ViewValue {
			continue
		}
		decl, ok := s.is.Of(column)
		before, had := s.was.Of(column)
		switch {
		case !ok && s.was == nil:
			s.Values++
			s.found(SampleFinding{Column: column}, row.Key)
		case ok && (!had || before.Type != decl.Type):
			s.Values++
			if decl.Type.Check(found.Value) != nil {
				s.found(SampleFinding{Column: decl.Name, Type: decl.Type}, row.Key)
			}
		}
	}
}

func (s *sampler) found(f SampleFinding, row string) {
	at := slices.IndexFunc(s.Findings, func(g SampleFinding) bool { return g.Column == f.Column && g.Type == f.Type })
	if at < 0 {
		if len(s.Findings) == sampleFindings {
			return
		}
		at = len(s.Findings)
		s.Findings = append(s.Findings, f)
	}
	of := &s.Findings[at]
	of.Values++
	if len(of.Rows) < sampleKeys && !slices.Contains(of.Rows, row) {
		of.Rows = append(of.Rows, row)
	}
}
