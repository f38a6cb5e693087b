package percolator

import (
	"context"
	"fmt"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso"
)

// StoredSchema is the schema of an instance with what is known of it. The zero value is that of an instance without one.
type StoredSchema struct {
	Schema  *Schema // in a fixed order and without Splits, which matter only when a table is created; nil: none is stored
	Version uint64  // grows with each change, and when an index becomes ready
	// Indexes tells how far each index of the schema can be trusted, by the Bigtable table of the index, TABLE.INDEX.
	Indexes map[string]IndexState
}

// IndexState tells how far an index can be trusted. The zero value is one that was created with its table, and always was complete.
type IndexState struct {
	Building bool          // it lacks entries: ScanIndex refuses it until Client.BackfillIndex has finished
	Since    tso.Timestamp // ScanIndex refuses snapshots below it
}

func (m meta) stored() StoredSchema {
	s := StoredSchema{Schema: m.schema, Version: m.version, Indexes: map[string]IndexState{}}
	if m.schema == nil {
		return s
	}
	for _, t := range m.schema.Tables {
		for _, ix := range t.Indexes {
			s.Indexes[ix.table(t.Name)] = IndexState(m.indexes[ix.table(t.Name)])
		}
	}
	return s
}

// ReadSchema reads the schema that is stored in an instance; it needs no oracle. appProfile is the one to read with, "" for the default
// one. Errors: ErrSchemaMismatch if the instance has no percolator_meta, ErrCorrupt, those of the store.
func ReadSchema(ctx context.Context, project, instance, appProfile string, opts ...option.ClientOption) (StoredSchema, error) {
	if err := checkContext(ctx); err != nil {
		return StoredSchema{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	bt, err := newBigtable(ctx, project, instance, appProfile, opts)
	if err != nil {
		return StoredSchema{}, err
	}
	defer bt.Close()
	m, err := readMeta(ctx, newStore(ctx, bt, &counters{}))
	if err != nil {
		return StoredSchema{}, err
	}
	return m.stored(), nil
}

// SchemaPlan is what CreateSchema would find and do.
type SchemaPlan struct {
	Stored  StoredSchema
	Changes []SchemaChange // empty: everything is as the schema says
}

// Refused is the first change that CreateSchema refuses, as ErrSchemaMismatch; nil: it would make them all.
func (p SchemaPlan) Refused() error { return refusal(p.Changes) }

// PlanSchema compares a schema with what is stored in the instance and with its tables, and changes nothing. It needs the permissions of
// CreateSchema to read, and no oracle. appProfile is the one to read with, "" for the default one. Errors: ErrInvalidArgument for a schema that is none, ErrCorrupt, those of the store.
func PlanSchema(ctx context.Context, project, instance, appProfile string, s *Schema, opts ...option.ClientOption) (SchemaPlan, error) {
	if err := checkContext(ctx); err != nil {
		return SchemaPlan{}, err
	}
	if err := s.Validate(); err != nil {
		return SchemaPlan{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, project, instance, opts...)
	if err != nil {
		return SchemaPlan{}, fmt.Errorf("percolator: admin client of %s/%s: %w", project, instance, withContext(ctx, err))
	}
	defer admin.Close()
	have, err := familiesOf(ctx, admin, s)
	if err != nil {
		return SchemaPlan{}, err
	}
	var plan SchemaPlan
	if have[metaTable][metaFamily] {
		if plan.Stored, err = ReadSchema(ctx, project, instance, appProfile, opts...); err != nil {
			return SchemaPlan{}, err
		}
	}
	plan.Changes = append(schemaChanges(plan.Stored.Schema, s), missingTables(plan.Stored.Schema, s, have)...)
	return plan, nil
}

// familiesOf reads the families of those tables of s, and of percolator_meta, that exist.
func familiesOf(ctx context.Context, admin *bigtable.AdminClient, s *Schema) (map[string]map[string]bool, error) {
	names := []string{metaTable}
	for _, t := range s.Tables {
		names = append(names, t.bigtableNames()...)
	}
	found := make([]map[string]bool, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, name := range names {
		g.Go(func() error {
			info, err := admin.TableInfo(ctx, name)
			switch {
			case status.Code(err) == codes.NotFound:
				return nil
			case err != nil:
				return fmt.Errorf("percolator: reading table %q: %w", name, withContext(ctx, err))
			}
			found[i] = set(info.Families)
			return nil
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

// missingTables lists what the instance lacks of the tables that the stored schema has already, and of percolator_meta.
func missingTables(old, next *Schema, have map[string]map[string]bool) (changes []SchemaChange) {
	missing := func(table, name string, families ...string) {
		if have[name] == nil {
			ch := SchemaChange{Kind: BigtableTableMissing, Table: table, Name: name}
			for _, t := range next.Tables {
				for _, ix := range t.Indexes {
					if t.Name == table && ix.table(table) == name {
						ch.Index, ch.Backfill = ix, true
					}
				}
			}
			changes = append(changes, ch)
			return
		}
		for _, f := range families {
			if !have[name][f] {
				changes = append(changes, SchemaChange{Kind: FamilyMissing, Table: table, Name: name + ":" + f})
			}
		}
	}
	missing("", metaTable, metaFamily, oracleFamily)
	if old == nil {
		return changes
	}
	had := newCatalog(old)
	for _, t := range next.Tables {
		for _, name := range t.bigtableNames() {
			if _, ok := had.tables[name]; ok {
				missing(t.Name, name, dataFamily, lockFamily, writeFamily, notifyFamily)
			}
		}
	}
	return changes
}
