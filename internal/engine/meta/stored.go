package meta

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// Stored is what the meta row says of the schema.
func (m State) Stored() model.StoredSchema {
	s := model.StoredSchema{Schema: m.Schema, Version: m.Version, Indexes: map[string]model.IndexState{}, Journal: m.Journal}
	if m.Schema == nil {
		return s
	}
	s.Dropping = slices.Concat(m.Schema.Dropping, m.Dropped.left())
	for _, t := range m.Schema.Tables {
		for _, ix := range t.Indexes {
			s.Indexes[catalog.IndexTable(t.Name, ix)] = m.Indexes[catalog.IndexTable(t.Name, ix)]
		}
	}
	return s
}

// ReadSchema reads the schema that is stored in an instance; it needs no oracle. appProfile is the
// one to read with, "" for the default one. Errors: ErrSchemaMismatch if the instance has no
// percolator_meta, ErrCorrupt, those of the store.
func ReadSchema(ctx context.Context, project, instance, appProfile string, opts ...option.ClientOption) (model.StoredSchema, error) {
	m, err := readFrom(ctx, project, instance, appProfile, opts)
	if err != nil {
		return model.StoredSchema{}, err
	}
	return m.Stored(), nil
}

// readFrom reads the meta row over a connection of its own.
func readFrom(ctx context.Context, project, instance, appProfile string, opts []option.ClientOption) (State, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.ConnectTimeout)
	defer cancel()
	bt, err := store.Connect(ctx, project, instance, appProfile, opts)
	if err != nil {
		return State{}, err
	}
	defer bt.Close()
	return Read(ctx, store.New(context.WithoutCancel(ctx), bt, &telemetry.Counters{}))
}

// PlanSchema compares a schema with what is stored in the instance and with its tables, and changes
// nothing. It needs CreateSchema's permissions to read, and no oracle. appProfile is the one to
// read with, "" for the default one. Errors: ErrInvalidArgument for an invalid schema, ErrCorrupt,
// those of the store.
func PlanSchema(ctx context.Context, project, instance, appProfile string, s *model.Schema, opts ...option.ClientOption) (model.SchemaPlan, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return model.SchemaPlan{}, err
	}
	if err := catalog.Validate(s); err != nil {
		return model.SchemaPlan{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.ConnectTimeout)
	defer cancel()
	admin, err := openAdmin(ctx, project, instance, opts)
	if err != nil {
		return model.SchemaPlan{}, err
	}
	defer admin.Close()
	tables := &adminTables{AdminClient: admin}
	metaFamilies, err := tables.Families(ctx, model.MetaTable)
	if err != nil {
		return model.SchemaPlan{}, err
	}
	var plan model.SchemaPlan
	if metaFamilies[Family] {
		if plan.Stored, err = ReadSchema(ctx, project, instance, appProfile, opts...); err != nil {
			return model.SchemaPlan{}, err
		}
	}
	if s, err = catalog.Beside(plan.Stored.Schema, s); err != nil {
		return model.SchemaPlan{}, err
	}
	have, err := familiesOf(ctx, tables, s)
	if err != nil {
		return model.SchemaPlan{}, err
	}
	plan.Changes = append(schemaChanges(plan.Stored.Schema, s), missingTables(plan.Stored.Schema, s, have)...)
	return plan, nil
}

// familiesOf reads the families of those tables of s, and of percolator_meta and the journal, that
// exist.
func familiesOf(ctx context.Context, tables Tables, s *model.Schema) (map[string]map[string]bool, error) {
	names := []string{model.MetaTable}
	if !s.DisableJournal {
		names = append(names, model.JournalTable)
	}
	names = append(names, catalog.AllTables(s)...)
	found := make([]map[string]bool, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, name := range names {
		g.Go(func() error {
			families, err := tables.Families(ctx, name)
			found[i] = families
			return err
		})
	}
	err := g.Wait()
	have := map[string]map[string]bool{}
	for i, name := range names {
		if found[i] != nil {
			have[name] = found[i]
		}
	}
	return have, err
}

// missingTables lists what the instance lacks of percolator_meta and of the tables that the stored
// schema has already.
func missingTables(old, next *model.Schema, have map[string]map[string]bool) (changes []model.SchemaChange) {
	missing := func(table, name string, families ...string) {
		if have[name] == nil {
			ch := model.SchemaChange{Kind: model.BigtableTableMissing, Table: table, Name: name, Backfill: name == model.JournalTable}
			for _, t := range next.Tables {
				for _, ix := range t.Indexes {
					if t.Name == table && catalog.IndexTable(table, ix) == name {
						ch.Index, ch.Backfill = ix, true
					}
				}
			}
			changes = append(changes, ch)
			return
		}
		for _, f := range families {
			if !have[name][f] {
				changes = append(changes, model.SchemaChange{Kind: model.FamilyMissing, Table: table, Name: name + ":" + f})
			}
		}
	}
	missing("", model.MetaTable, Family, oracleFamily)
	if old == nil {
		return changes
	}
	if !old.DisableJournal && !next.DisableJournal {
		missing("", model.JournalTable, layout.JournalFamily)
	}
	had := catalog.New(old)
	for _, t := range next.Tables {
		for _, name := range catalog.BigtableNames(t) {
			if _, ok := had.Tables[name]; ok {
				missing(t.Name, name, layout.DataFamily, layout.LockFamily, layout.WriteFamily, layout.NotifyFamily)
			}
		}
	}
	return changes
}
