package percolator

import (
	"context"
	"fmt"
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
	bt, err := newBigtable(ctx, project, instance, "", opts)
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
