package admin

import (
	"context"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Instance gives access to an instance of Bigtable without a percolator.Client. Its methods need
// neither an oracle nor a stored schema. They may be called concurrently.
type Instance struct {
	Project, ID string                // required
	AppProfile  string                // "": the instance's default
	Options     []option.ClientOption // of the connection to Bigtable

	// Protection is that of the tables that ApplySchema and CreateMetaTable create; existing tables
	// keep theirs. The Terraform module offers the same.
	Protection model.TableProtection
}

// ApplySchema is percolator.CreateSchema through an app profile. A conditional mutation stores the
// schema, so the profile has to route to a single cluster and allow transactional writes.
func (in Instance) ApplySchema(ctx context.Context, s *percolator.Schema) error {
	return meta.ApplySchema(ctx, in.Project, in.ID, in.AppProfile, in.Protection, s, in.Options...)
}

// PlanSchema compares s with the stored schema of the instance and with its tables. It changes
// nothing and needs no oracle. It needs those permissions of CreateSchema that read. Errors:
// ErrInvalidArgument for an invalid schema, ErrCorrupt, and those of the store.
func (in Instance) PlanSchema(ctx context.Context, s *percolator.Schema) (model.SchemaPlan, error) {
	return meta.PlanSchema(ctx, in.Project, in.ID, in.AppProfile, s, in.Options...)
}

// ReadSchema reads the stored schema of an instance; it needs no oracle. Errors: ErrSchemaMismatch
// if the instance has no percolator_meta, ErrCorrupt, and those of the store.
func (in Instance) ReadSchema(ctx context.Context) (model.StoredSchema, error) {
	return meta.ReadSchema(ctx, in.Project, in.ID, in.AppProfile, in.Options...)
}

// CreateMetaTable creates the table percolator_meta in the instance, as CreateSchema does, with the
// family in which a timestamp oracle keeps its record (section 2.3 of the paper). So an oracle can
// start before there is a schema. It is idempotent and adds what an existing table lacks. On a real
// instance it may take up to 5 minutes.
func (in Instance) CreateMetaTable(ctx context.Context) error {
	return meta.CreateMetaTable(ctx, in.Project, in.ID, in.Protection, in.Options...)
}

// ProposeTiming stores the Timing that CreateSchema gives an instance's first schema if the schema
// sets none, so that every drain on a trial instance takes less than 80 s. A stored schema keeps
// its own. percolator_meta must exist (CreateMetaTable). Errors: ErrInvalidArgument for a Timing
// beyond its limits, ErrCorrupt, and those of the store.
func (in Instance) ProposeTiming(ctx context.Context, t percolator.Timing) error {
	return meta.ProposeTiming(ctx, in.Project, in.ID, t, in.Options...)
}

// ServedTimestamp returns the greatest timestamp in percolator_meta, among those of collection and
// of holds; 0 if there is none. The oracle of the instance has handed it out. A server of the
// oracle must not start if its record has a smaller high-water mark (tso.ServerConfig.Served): the
// record was lost or restored from a backup, and the server would hand out timestamps below
// committed data again.
//
// Errors: those of the store, also if the instance has no percolator_meta, and ErrCorrupt.
func (in Instance) ServedTimestamp(ctx context.Context) (tso.Timestamp, error) {
	return meta.ServedTimestamp(ctx, in.Project, in.ID, in.AppProfile, in.Options...)
}
