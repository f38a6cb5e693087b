package meta

import (
	"context"
	"fmt"

	"cloud.google.com/go/bigtable"
	"github.com/gopercolator/percolator/internal/model"
	"google.golang.org/api/option"
)

// CreateMetaTable creates the table percolator_meta in the instance, with the family in which a timestamp oracle keeps its
// record (section 2.3 of the paper), as CreateSchema does: so an oracle can be started before there is a schema. It is idempotent and adds
// what an existing table lacks. It may take minutes on a real instance, at most 5.
func CreateMetaTable(ctx context.Context, project, instance string, opts ...option.ClientOption) error {
	if err := model.CheckContext(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, project, instance, opts...)
	if err != nil {
		return fmt.Errorf("percolator: admin client of %s/%s: %w", project, instance, model.WithContext(ctx, err))
	}
	defer admin.Close()
	return createMeta(ctx, admin)
}

func createMeta(ctx context.Context, admin *bigtable.AdminClient) error {
	return createTable(ctx, admin, model.MetaTable, nil, Family, oracleFamily)
}
