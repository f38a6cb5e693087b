package meta

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
)

// Tables are those of an instance, for those who may create them.
type Tables interface {
	// Create creates a table, cut at splits, or adds the families that an existing one lacks. In what
	// it creates, the store may remove all but the newest versions of a cell; 0: none.
	Create(ctx context.Context, name string, splits []string, versions int, families ...string) error
	// Families are those of a table; nil if it does not exist.
	Families(ctx context.Context, name string) (map[string]bool, error)
}

// adminTables are those of Bigtable. protect is for those that it creates.
type adminTables struct {
	*bigtable.AdminClient
	protect model.TableProtection
}

// backupEvery is how often Bigtable makes a backup by itself: it takes nothing else.
const backupEvery = 24 * time.Hour

func (admin *adminTables) Create(ctx context.Context, name string, splits []string, versions int, families ...string) error {
	collect := bigtable.NoGcPolicy()
	if versions > 0 {
		collect = bigtable.MaxVersionsPolicy(versions)
	}
	conf := &bigtable.TableConf{TableID: name, SplitKeys: splits, Families: map[string]bigtable.GCPolicy{}}
	for _, f := range families {
		conf.Families[f] = collect
	}
	if admin.protect.Deletion {
		conf.DeletionProtection = bigtable.Protected
	}
	if keep := admin.protect.Backups; keep > 0 {
		conf.AutomatedBackupConfig = &bigtable.TableAutomatedBackupPolicy{RetentionPeriod: keep, Frequency: backupEvery}
	}
	err := admin.CreateTableFromConf(ctx, conf)
	if err == nil {
		return nil
	}
	if status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("percolator: creating table %q: %w", name, retry.WithContext(ctx, err))
	}
	info, err := admin.TableInfo(ctx, name)
	if err != nil {
		return fmt.Errorf("percolator: reading table %q: %w", name, retry.WithContext(ctx, err))
	}
	have := catalog.SetOf(info.Families)
	for _, f := range families {
		if have[f] {
			continue
		}
		if err := admin.CreateColumnFamilyWithConfig(ctx, name, f, bigtable.Family{GCPolicy: collect}); err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("percolator: creating family %q of table %q: %w", f, name, retry.WithContext(ctx, err))
		}
	}
	return nil
}

func (admin *adminTables) Families(ctx context.Context, name string) (map[string]bool, error) {
	info, err := admin.TableInfo(ctx, name)
	switch {
	case status.Code(err) == codes.NotFound:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("percolator: reading table %q: %w", name, retry.WithContext(ctx, err))
	}
	return catalog.SetOf(info.Families), nil
}
