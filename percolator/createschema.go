package percolator

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// createTimeout bounds CreateSchema; creating a table on a real instance takes seconds.
const createTimeout = 5 * time.Minute

// CreateSchema creates the tables of s in the instance and stores s there: the four families of each table, the tables
// of its indexes, and the table percolator_meta. It is idempotent. A schema that adds tables, observed columns or
// indexes to the stored one replaces it; one that lacks something of it is refused with ErrSchemaMismatch, and nothing
// is ever deleted. No native garbage collection is set: an age policy would compare our timestamps with the wall clock.
//
// An index that is added together with its table is ready at once. One that is added to a table of the stored schema, empty or
// not, begins as being built: writers maintain it, ScanIndex refuses it, and Client.BackfillIndex finishes it.
//
// A writer that has not yet seen the new schema omits its notifications and index entries. Clients re-read the
// schema, adopt additions, and refuse to commit on knowledge older than Timing.MetaMaxAge: additions to tables that are in use
// are in force that long after CreateSchema has returned.
func CreateSchema(ctx context.Context, project, instance string, s *Schema, opts ...option.ClientOption) error {
	return ApplySchema(ctx, project, instance, "", s, opts...)
}

// ApplySchema is CreateSchema through an app profile. The schema is stored by a conditional mutation, so the profile has to route to a single
// cluster and allow transactional writes; "" is the instance's default one.
func ApplySchema(ctx context.Context, project, instance, appProfile string, s *Schema, opts ...option.ClientOption) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, project, instance, opts...)
	if err != nil {
		return fmt.Errorf("percolator: admin client of %s/%s: %w", project, instance, withContext(ctx, err))
	}
	defer admin.Close()
	bt, err := newBigtable(ctx, project, instance, appProfile, opts)
	if err != nil {
		return err
	}
	defer bt.Close()

	if err := createMeta(ctx, admin); err != nil {
		return err
	}
	meta := newStore(context.Background(), bt, &counters{})
	stored, err := readMeta(ctx, meta)
	if err != nil {
		return err
	}
	if stored.schema != nil {
		if err := s.covers(stored.schema); err != nil {
			return err
		}
	}
	if stored, err = reopenLost(ctx, admin, meta, stored); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(8)
	for _, t := range s.Tables {
		for _, name := range t.bigtableNames() {
			var splits []string
			if name == t.Name {
				splits = t.Splits
			}
			g.Go(func() error {
				return createTable(ctx, admin, name, splits, dataFamily, lockFamily, writeFamily, notifyFamily)
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return storeSchema(ctx, meta, stored, s)
}

// createTable creates the table with its families, or adds the families that an existing one lacks.
func createTable(ctx context.Context, admin *bigtable.AdminClient, name string, splits []string, families ...string) error {
	conf := &bigtable.TableConf{TableID: name, SplitKeys: splits, Families: map[string]bigtable.GCPolicy{}}
	for _, f := range families {
		conf.Families[f] = bigtable.NoGcPolicy()
	}
	err := admin.CreateTableFromConf(ctx, conf)
	if err == nil {
		return nil
	}
	if status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("percolator: creating table %q: %w", name, withContext(ctx, err))
	}
	info, err := admin.TableInfo(ctx, name)
	if err != nil {
		return fmt.Errorf("percolator: reading table %q: %w", name, withContext(ctx, err))
	}
	have := set(info.Families)
	for _, f := range families {
		if have[f] {
			continue
		}
		if err := admin.CreateColumnFamily(ctx, name, f); err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("percolator: creating family %q of table %q: %w", f, name, withContext(ctx, err))
		}
	}
	return nil
}

// reopenLost has indexes of the stored schema whose Bigtable tables are gone built again: a table that is created now has none of their
// entries, and a ready index is believed. Nobody must hold it for ready when the empty table appears, so that waits until every client knows.
func reopenLost(ctx context.Context, admin *bigtable.AdminClient, s *store, stored meta) (meta, error) {
	if stored.schema == nil {
		return stored, nil
	}
	have, err := familiesOf(ctx, admin, stored.schema)
	if err != nil {
		return stored, err
	}
	states, lost := indexStates{}, false
	maps.Copy(states, stored.indexes)
	for _, t := range stored.schema.Tables {
		for _, ix := range t.Indexes {
			if name := ix.table(t.Name); have[name] == nil && !states[name].Building {
				states[name], lost = indexState{Building: true}, true
			}
		}
	}
	if !lost {
		return stored, nil
	}
	mut := bigtable.NewMutation()
	mut.Set(metaFamily, metaIndexes, metaTimestamp, states.encode())
	mut.Set(metaFamily, metaVersion, metaTimestamp, binary.BigEndian.AppendUint64(nil, stored.version+1))
	same := bigtable.ChainFilters(oneColumn(metaFamily, metaVersion), exactValue(binary.BigEndian.AppendUint64(nil, stored.version)))
	applied, err := s.checkAndMutate(ctx, metaTable, metaRow, same, mut, nil)
	switch {
	case err != nil:
		return stored, fmt.Errorf("percolator: marking lost indexes: %w", err)
	case !applied:
		return stored, fmt.Errorf("percolator: %w: somebody else changed the schema at the same time; run it again", ErrSchemaMismatch)
	}
	select {
	case <-time.After(stored.schema.Timing.withDefaults().MetaMaxAge):
	case <-ctx.Done():
		return stored, withContext(ctx, ctx.Err())
	}
	return readMeta(ctx, s)
}
