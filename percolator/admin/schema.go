package admin

import (
	"context"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// StoredSchema is the schema of an instance with what is known of it. The zero value is that of an
// instance without one.
type StoredSchema = meta.StoredSchema

// IndexState tells how far an index can be trusted. The zero value is one that was created with its
// table, and always was complete.
type IndexState = meta.IndexState

// SchemaPlan is what CreateSchema would find and do.
type SchemaPlan = meta.SchemaPlan

// SchemaChange is one difference between the stored schema and another one.
type SchemaChange = meta.SchemaChange

// SchemaChangeKind says what a SchemaChange is.
type SchemaChangeKind = meta.SchemaChangeKind

const (
	TableAdded           = meta.TableAdded
	ObservedAdded        = meta.ObservedAdded
	WeakAdded            = meta.WeakAdded
	IndexAdded           = meta.IndexAdded
	BigtableTableMissing = meta.BigtableTableMissing // of a table that the stored schema has
	FamilyMissing        = meta.FamilyMissing
	TableRemoved         = meta.TableRemoved
	ObservedRemoved      = meta.ObservedRemoved
	WeakRemoved          = meta.WeakRemoved
	IndexRemoved         = meta.IndexRemoved
	IndexChanged         = meta.IndexChanged
	TimingChanged        = meta.TimingChanged
)

// ApplySchema is CreateSchema through an app profile. The schema is stored by a conditional
// mutation, so the profile has to route to a single cluster and allow transactional writes; "" is
// the instance's default one.
func ApplySchema(ctx context.Context, project, instance, appProfile string, s *percolator.Schema, opts ...option.ClientOption) error {
	return meta.ApplySchema(ctx, project, instance, appProfile, s, opts...)
}

// PlanSchema compares a schema with what is stored in the instance and with its tables, and changes
// nothing. It needs the permissions of CreateSchema to read, and no oracle. appProfile is the one
// to read with, "" for the default one. Errors: ErrInvalidArgument for a schema that is none,
// ErrCorrupt, those of the store.
func PlanSchema(ctx context.Context, project, instance, appProfile string, s *percolator.Schema, opts ...option.ClientOption) (SchemaPlan, error) {
	return meta.PlanSchema(ctx, project, instance, appProfile, s, opts...)
}

// ReadSchema reads the schema that is stored in an instance; it needs no oracle. appProfile is the
// one to read with, "" for the default one. Errors: ErrSchemaMismatch if the instance has no
// percolator_meta, ErrCorrupt, those of the store.
func ReadSchema(ctx context.Context, project, instance, appProfile string, opts ...option.ClientOption) (StoredSchema, error) {
	return meta.ReadSchema(ctx, project, instance, appProfile, opts...)
}

// CreateMetaTable creates the table percolator_meta in the instance, with the family in which a
// timestamp oracle keeps its record (section 2.3 of the paper), as CreateSchema does: so an oracle
// can be started before there is a schema. It is idempotent and adds what an existing table lacks.
// It may take minutes on a real instance, at most 5.
func CreateMetaTable(ctx context.Context, project, instance string, opts ...option.ClientOption) error {
	return meta.CreateMetaTable(ctx, project, instance, opts...)
}

// ServedTimestamp returns a timestamp that the oracle of an instance is known to have handed out,
// the greatest of those that stand in percolator_meta: those of collection and of holds; 0 if there
// is none. appProfile is the one to read with, "" for the default one. A server of the oracle that
// finds a smaller high-water mark in its record must not start (tso.ServerConfig.Served): the
// record was lost or restored from a backup, and what it would hand out again lies below committed
// data. Errors: those of the store, also when the instance has no percolator_meta, and ErrCorrupt.
func ServedTimestamp(ctx context.Context, project, instance, appProfile string, opts ...option.ClientOption) (tso.Timestamp, error) {
	return meta.ServedTimestamp(ctx, project, instance, appProfile, opts...)
}
