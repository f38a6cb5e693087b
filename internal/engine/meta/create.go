package meta

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// createTimeout bounds CreateSchema: a real instance takes seconds to create one table.
const createTimeout = 5 * time.Minute

// ApplySchema is CreateSchema through an app profile; "" is the instance's default one. It stores
// the schema by a conditional mutation, so the profile must route to a single cluster and allow
// single-row transactions. Tables that it creates are protected as protect says.
func ApplySchema(ctx context.Context, project, instance, appProfile string, protect model.TableProtection, s *model.Schema, opts ...option.ClientOption) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	if err := cmp.Or(catalog.Validate(s), protect.Check()); err != nil {
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

	return ApplySchemaOn(ctx, &adminTables{admin, protect}, bt, s)
}

// ApplySchemaOn is ApplySchema on an open store.
func ApplySchemaOn(ctx context.Context, tables Tables, backend store.Backend, s *model.Schema) error {
	if err := catalog.Validate(s); err != nil {
		return err
	}
	if err := createMeta(ctx, tables); err != nil {
		return err
	}
	meta := store.New(context.Background(), backend, &telemetry.Counters{})
	stored, err := Read(ctx, meta)
	if err != nil {
		return err
	}
	if s, err = catalog.Beside(stored.Schema, s); err != nil {
		return err
	}
	if stored.Schema == nil {
		s = withTimingOf(stored.Timing, s)
		if err := catalog.CheckTiming(catalog.EffectiveTiming(s.Timing)); err != nil {
			return err
		}
	} else {
		if err := covers(s, stored.Schema); err != nil {
			return err
		}
		s = withTimingOf(stored.Schema.Timing, s)
		s = catalog.WithDropping(s, stored.Schema.Dropping)
		if err := cmp.Or(catalog.ValidateStored(s), stored.admits(s), stored.checkTTLs(s)); err != nil {
			return err
		}
	}
	if err := stored.roomFor(metaSchema, catalog.EncodeSchema(s), fewer); err != nil {
		return err
	}
	if stored, err = reopenLost(ctx, tables, meta, stored); err != nil {
		return err
	}
	if err := createAll(ctx, tables, s); err != nil {
		return err
	}
	// The tables may have taken minutes, and an import may have started. One that begins from here on
	// reads the schema only after a drain.
	now, err := Read(ctx, meta)
	if err == nil {
		err = now.checkTTLs(s)
	}
	if err != nil {
		return err
	}
	return storeSchema(ctx, meta, stored, s)
}

// createAll creates the tables of a schema.
func createAll(ctx context.Context, tables Tables, s *model.Schema) error {
	var g errgroup.Group
	g.SetLimit(8)
	for _, t := range s.Tables {
		for _, name := range catalog.BigtableNames(t) {
			var splits []string
			if name == t.Name {
				splits = t.Splits
			}
			g.Go(func() error { return tables.Create(ctx, name, splits, 0, layout.Families[:]...) })
		}
	}
	if !s.DisableJournal {
		g.Go(func() error { return createJournal(ctx, tables) })
	}
	return g.Wait()
}

func openAdmin(ctx context.Context, project, instance string, opts []option.ClientOption) (*bigtable.AdminClient, error) {
	if err := store.AwaitEmulator(ctx, opts); err != nil {
		return nil, err
	}
	admin, err := bigtable.NewAdminClient(ctx, project, instance, opts...)
	if err != nil {
		return nil, fmt.Errorf("percolator: admin client of %s/%s: %w", project, instance, retry.WithContext(ctx, emulatorhost.Credentials(err)))
	}
	return admin, nil
}

// reopenLost marks as building the indexes, and the journal, of the stored schema whose Bigtable
// tables are gone: a new table has none of their entries, and readers believe a ready index,
// workers and collectors a ready journal. No client may believe it when the empty table appears, so
// reopenLost waits until every client knows. Their lives end: what a backfill has done is gone,
// too.
func reopenLost(ctx context.Context, tables Tables, s *store.Store, stored State) (State, error) {
	if stored.Schema == nil {
		return stored, nil
	}
	have, err := familiesOf(ctx, tables, stored.Schema)
	if err != nil {
		return stored, err
	}
	next, lost := stored, []string(nil)
	next.Indexes = IndexStates{}
	maps.Copy(next.Indexes, stored.Indexes)
	for _, t := range stored.Schema.Tables {
		for _, ix := range t.Indexes {
			if name := catalog.IndexTable(t.Name, ix); have[name] == nil {
				next.Indexes[name], lost = model.IndexState{Building: true}, append(lost, name)
			}
		}
	}
	if !stored.Schema.DisableJournal && have[model.JournalTable] == nil {
		next.Journal, lost = buildingJournal(), append(lost, model.JournalTable)
	}
	if len(lost) == 0 {
		return stored, nil
	}
	next.Lives = stored.ended(lost...)
	applied, err := stored.replace(ctx, s, next)
	switch {
	case err != nil:
		return stored, fmt.Errorf("percolator: marking what was lost: %w", err)
	case !applied:
		return stored, fmt.Errorf("percolator: %w: another client changed the schema at the same time; run it again", model.ErrSchemaMismatch)
	}
	if err := retry.Sleep(ctx, catalog.EffectiveTiming(stored.Schema.Timing).MetaMaxAge); err != nil {
		return stored, err
	}
	return Read(ctx, s)
}

// CreateMetaTable creates the table percolator_meta in the instance, as CreateSchema does, with the
// family in which a timestamp oracle keeps its record (section 2.3 of the paper). So an oracle can
// start before there is a schema. It is idempotent and adds what an existing table lacks. On a real
// instance it may take minutes, at most 5.
func CreateMetaTable(ctx context.Context, project, instance string, protect model.TableProtection, opts ...option.ClientOption) error {
	if err := cmp.Or(retry.CheckContext(ctx), protect.Check()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	admin, err := openAdmin(ctx, project, instance, opts)
	if err != nil {
		return err
	}
	defer admin.Close()
	return createMeta(ctx, &adminTables{admin, protect})
}

func createMeta(ctx context.Context, tables Tables) error {
	return tables.Create(ctx, model.MetaTable, nil, 0, Family, oracleFamily)
}

// createJournal creates the table of the journal, cut at shards. Of a cell the newest version
// counts, so Bigtable may remove the others.
func createJournal(ctx context.Context, tables Tables) error {
	return tables.Create(ctx, model.JournalTable, []string{"\x10", "\x20", "\x30", "\x40"}, 1, layout.JournalFamily)
}
