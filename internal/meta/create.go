package meta

import (
	"context"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/telemetry"
)

// createTimeout bounds CreateSchema: a real instance takes seconds to create one table.
const createTimeout = 5 * time.Minute

// ApplySchema is CreateSchema through an app profile; "" is the instance's default one. It stores
// the schema by a conditional mutation, so the profile must route to a single cluster and allow
// single-row transactions.
func ApplySchema(ctx context.Context, project, instance, appProfile string, s *model.Schema, opts ...option.ClientOption) error {
	if err := model.CheckContext(ctx); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	admin, err := openAdmin(ctx, project, instance, opts)
	if err != nil {
		return err
	}
	defer admin.Close()
	bt, err := store.Connect(ctx, project, instance, appProfile, opts)
	if err != nil {
		return err
	}
	defer bt.Close()

	if err := createMeta(ctx, admin); err != nil {
		return err
	}
	meta := store.New(context.Background(), bt, &telemetry.Counters{})
	stored, err := Read(ctx, meta)
	if err != nil {
		return err
	}
	if stored.Schema != nil {
		if err := covers(s, stored.Schema); err != nil {
			return err
		}
	}
	if stored, err = reopenLost(ctx, admin, meta, stored); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(8)
	for _, t := range s.Tables {
		for _, name := range model.BigtableNames(t) {
			var splits []string
			if name == t.Name {
				splits = t.Splits
			}
			g.Go(func() error {
				return createTable(ctx, admin, name, splits, bigtable.NoGcPolicy(), layout.Families[:]...)
			})
		}
	}
	if !s.DisableJournal {
		g.Go(func() error { return createJournal(ctx, admin) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return storeSchema(ctx, meta, stored, s)
}

func openAdmin(ctx context.Context, project, instance string, opts []option.ClientOption) (*bigtable.AdminClient, error) {
	admin, err := bigtable.NewAdminClient(ctx, project, instance, opts...)
	if err != nil {
		return nil, fmt.Errorf("percolator: admin client of %s/%s: %w", project, instance, model.WithContext(ctx, err))
	}
	return admin, nil
}

// createTable creates the table with its families, or adds the families that an existing one lacks.
func createTable(ctx context.Context, admin *bigtable.AdminClient, name string, splits []string, collect bigtable.GCPolicy, families ...string) error {
	conf := &bigtable.TableConf{TableID: name, SplitKeys: splits, Families: map[string]bigtable.GCPolicy{}}
	for _, f := range families {
		conf.Families[f] = collect
	}
	err := admin.CreateTableFromConf(ctx, conf)
	if err == nil {
		return nil
	}
	if status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("percolator: creating table %q: %w", name, model.WithContext(ctx, err))
	}
	info, err := admin.TableInfo(ctx, name)
	if err != nil {
		return fmt.Errorf("percolator: reading table %q: %w", name, model.WithContext(ctx, err))
	}
	have := model.SetOf(info.Families)
	for _, f := range families {
		if have[f] {
			continue
		}
		if err := admin.CreateColumnFamily(ctx, name, f); err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("percolator: creating family %q of table %q: %w", f, name, model.WithContext(ctx, err))
		}
	}
	return nil
}

// reopenLost marks as building the indexes, and the journal, of the stored schema whose Bigtable
// tables are gone: a new table has none of their entries, and readers believe a ready index,
// workers and collectors a ready journal. No client may believe it when the empty table appears, so
// reopenLost waits until every client knows.
func reopenLost(ctx context.Context, admin *bigtable.AdminClient, s *store.Store, stored State) (State, error) {
	if stored.Schema == nil {
		return stored, nil
	}
	have, err := familiesOf(ctx, admin, stored.Schema)
	if err != nil {
		return stored, err
	}
	next, lost := stored, false
	next.Indexes = IndexStates{}
	maps.Copy(next.Indexes, stored.Indexes)
	for _, t := range stored.Schema.Tables {
		for _, ix := range t.Indexes {
			if name := model.IndexTable(t.Name, ix); have[name] == nil && !next.Indexes[name].Building {
				next.Indexes[name], lost = IndexState{Building: true}, true
			}
		}
	}
	if !stored.Schema.DisableJournal && have[model.JournalTable] == nil {
		next.Journal, lost = buildingJournal(), true
	}
	if !lost {
		return stored, nil
	}
	applied, err := stored.replace(ctx, s, next)
	switch {
	case err != nil:
		return stored, fmt.Errorf("percolator: marking what was lost: %w", err)
	case !applied:
		return stored, fmt.Errorf("percolator: %w: somebody else changed the schema at the same time; run it again", model.ErrSchemaMismatch)
	}
	select {
	case <-time.After(model.EffectiveTiming(stored.Schema.Timing).MetaMaxAge):
	case <-ctx.Done():
		return stored, model.WithContext(ctx, ctx.Err())
	}
	return Read(ctx, s)
}

// CreateMetaTable creates the table percolator_meta in the instance, as CreateSchema does, with the
// family in which a timestamp oracle keeps its record (section 2.3 of the paper). So an oracle can
// start before there is a schema. It is idempotent and adds what an existing table lacks. On a real
// instance it may take minutes, at most 5.
func CreateMetaTable(ctx context.Context, project, instance string, opts ...option.ClientOption) error {
	if err := model.CheckContext(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	admin, err := openAdmin(ctx, project, instance, opts)
	if err != nil {
		return err
	}
	defer admin.Close()
	return createMeta(ctx, admin)
}

func createMeta(ctx context.Context, admin *bigtable.AdminClient) error {
	return createTable(ctx, admin, model.MetaTable, nil, bigtable.NoGcPolicy(), Family, oracleFamily)
}

// createJournal creates the table of the journal, cut at shards. Of a cell the newest version
// counts, so Bigtable may remove the others.
func createJournal(ctx context.Context, admin *bigtable.AdminClient) error {
	return createTable(ctx, admin, model.JournalTable, []string{"\x10", "\x20", "\x30", "\x40"}, bigtable.MaxVersionsPolicy(1), layout.JournalFamily)
}
