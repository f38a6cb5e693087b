package admin

import (
	"context"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// StoredSchema is the schema of an instance and its state. The zero value stands for an instance
// without a schema:
//
//	Schema  *percolator.Schema    // in a fixed order and without Splits; nil: none is stored
//	Version uint64                // grows with each change, and when an index becomes ready
//	Indexes map[string]IndexState // by the index's Bigtable table, TABLE.INDEX
//	Journal JournalState          // of the journal, if the schema does not disable it
//
//	Dropping []string // Bigtable tables whose drop is unfinished
type StoredSchema = meta.StoredSchema

// IndexState tells from which snapshot on an index is complete. The zero value is the state of an
// index that was created with its table and always was complete:
//
//	Building bool          // it lacks entries: ScanIndex refuses it until BackfillIndex has finished
//	Since    tso.Timestamp // ScanIndex refuses snapshots below it
//
// Complete(ts) reports whether every cell of a snapshot at ts has its entry.
type IndexState = meta.IndexState

// JournalState tells how far the journal can be trusted. The zero value is the state of one that
// was created with the instance and always was complete:
//
//	Building string        // not "": it lacks what is older, until a sweep has ended (Sweeper)
//	Since    tso.Timestamp // collection goes by the journal for safepoints from here on
type JournalState = meta.JournalState

// SchemaPlan is what CreateSchema would find and do:
//
//	Stored  StoredSchema
//	Changes []SchemaChange // empty: everything is as the schema says
//
// Refused() is the ErrSchemaMismatch of the first change that CreateSchema would refuse; nil: it
// would make them all.
type SchemaPlan = meta.SchemaPlan

// SchemaChange is one difference between the stored schema and another one:
//
//	Kind     SchemaChangeKind
//	Table    string           // "" for what concerns the instance
//	Name     string           // of the column or index; if Bigtable lacks it, TABLE or TABLE:FAMILY
//	Index    percolator.Index // as it is to be, or was, when the change is one of an index
//	Column   percolator.ColumnSchema // as it is to be, of a declared column; of a table only the TTL
//	Was      percolator.ColumnSchema // what was declared for the column, perhaps by a prefix
//	Backfill bool             // what exists does not get the index, observer or journal by itself
//
// With Backfill an index needs BackfillIndex; each observer of a column needs BackfillObserver if
// it is to see existing cells; a journal needs one sweep (Sweeper). Err() is the ErrSchemaMismatch
// with which CreateSchema refuses the change; nil: it makes the change. Droppable reports whether
// Admin.DropFromSchema makes a change that CreateSchema refuses.
type SchemaChange = meta.SchemaChange

// SchemaChangeKind says what a SchemaChange is.
type SchemaChangeKind = meta.SchemaChangeKind

// The kinds of schema changes.
const (
	TableAdded    = meta.TableAdded
	ObservedAdded = meta.ObservedAdded
	WeakAdded     = meta.WeakAdded
	IndexAdded    = meta.IndexAdded
	// The stored schema has it, the instance does not.
	BigtableTableMissing = meta.BigtableTableMissing
	FamilyMissing        = meta.FamilyMissing
	TableRemoved         = meta.TableRemoved
	ObservedRemoved      = meta.ObservedRemoved
	WeakRemoved          = meta.WeakRemoved
	IndexRemoved         = meta.IndexRemoved
	IndexChanged         = meta.IndexChanged
	TimingChanged        = meta.TimingChanged
	TTLRemoved           = meta.TTLRemoved
	JournalAdded         = meta.JournalAdded
	JournalRemoved       = meta.JournalRemoved
	ColumnDeclared       = meta.ColumnDeclared
	ColumnRemoved        = meta.ColumnRemoved
	TypeChanged          = meta.TypeChanged // refused, unless it was bytes
	TTLChanged           = meta.TTLChanged  // or NotifyExpired; of a table if Name is ""
)

// Instance names an instance of Bigtable for what needs no client of it: neither an oracle nor a
// schema.
type Instance struct {
	Project, ID string
	AppProfile  string                // "": the instance's default
	Options     []option.ClientOption // of the connection to Bigtable
}

// ApplySchema is percolator.CreateSchema through an app profile. A conditional mutation stores the
// schema, so the profile has to route to a single cluster and allow transactional writes.
func (in Instance) ApplySchema(ctx context.Context, s *percolator.Schema) error {
	return meta.ApplySchema(ctx, in.Project, in.ID, in.AppProfile, s, in.Options...)
}

// PlanSchema compares s with the stored schema of the instance and with its tables. It changes
// nothing, and needs no oracle, but the permissions to read that CreateSchema needs. Errors:
// ErrInvalidArgument for an invalid schema, ErrCorrupt, and those of the store.
func (in Instance) PlanSchema(ctx context.Context, s *percolator.Schema) (SchemaPlan, error) {
	return meta.PlanSchema(ctx, in.Project, in.ID, in.AppProfile, s, in.Options...)
}

// ReadSchema reads the stored schema of an instance; it needs no oracle. Errors: ErrSchemaMismatch
// if the instance has no percolator_meta, ErrCorrupt, and those of the store.
func (in Instance) ReadSchema(ctx context.Context) (StoredSchema, error) {
	return meta.ReadSchema(ctx, in.Project, in.ID, in.AppProfile, in.Options...)
}

// CreateMetaTable creates the table percolator_meta in the instance, as CreateSchema does, with the
// family in which a timestamp oracle keeps its record (section 2.3 of the paper). So an oracle can
// start before there is a schema. It is idempotent and adds what an existing table lacks. On a real
// instance it may take up to 5 minutes.
func (in Instance) CreateMetaTable(ctx context.Context) error {
	return meta.CreateMetaTable(ctx, in.Project, in.ID, in.Options...)
}

// ProposeTiming stores the Timing that CreateSchema gives the first schema of an instance where the
// schema leaves it open, so that an instance for trying waits for less than 80 s, whoever creates
// its schema. A schema that is stored already keeps its own. percolator_meta must exist
// (CreateMetaTable). Errors: ErrInvalidArgument for a Timing beyond its limits, ErrCorrupt, and
// those of the store.
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
