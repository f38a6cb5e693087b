package percolator

import (
	"context"
	"fmt"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/model"
)

// Schema is the set of Percolator tables of an instance. See [model.Schema] for the fields.
type Schema = model.Schema

// Table describes one table. See [model.Table] for the fields.
type Table = model.Table

// ColumnSchema declares a column of a table, or all whose names begin with a prefix. See
// [model.ColumnSchema] for the fields.
type ColumnSchema = model.ColumnSchema

// MaxDeclaredColumns, 1,000, is how many Columns a Table may have.
const MaxDeclaredColumns = model.MaxDeclaredColumns

// Index is a secondary index over the bytes of one column, maintained in the transaction that
// writes the column. See [model.Index] for the fields.
type Index = model.Index

// Timing is what every client of an instance must agree on: how long a request may last (30 s by
// default), and how old a client's copy of the schema may be (45 s). See [model.Timing].
type Timing = model.Timing

// Stats are the counters of a client since NewClient. See [model.Stats] for the fields.
type Stats = model.Stats

// ValidateSchema reports, without an instance, what CreateSchema refuses in any: ErrInvalidArgument
// for names, types and times that no schema may have; ErrTooLarge for too many tables or columns.
func ValidateSchema(s *Schema) error { return catalog.Validate(s) }

// CreateSchema stores s in the instance and creates its tables: each with four families, the tables
// of indexes, and percolator_meta. It is idempotent and takes at most 5 min. A new schema may add
// tables, observed columns, weak columns, indexes and Columns, change TTLs, and give a type to what
// was TypeBytes. CreateSchema refuses other differences with ErrSchemaMismatch: anything missing,
// another Timing or type, a table that belongs to a schema of another name. It never deletes
// anything. CreateSchema sets no native garbage collection: an age policy would compare the
// oracle's timestamps with Bigtable's clock.
//
// A new instance has a journal, complete at once, unless DisableJournal is set. A later
// CreateSchema without DisableJournal adds a journal, which is building until a sweep has ended
// (admin.Sweeper); one with DisableJournal turns the journal off. Programs whose Config.Schema
// differs from the stored one in DisableJournal alone keep working.
//
// An index that is added together with its table is ready at once. One that is added to a table of
// the stored schema, empty or not, is building at first: writers maintain it, ScanIndex refuses it,
// and admin.Admin.BackfillIndex finishes it.
//
// CreateSchema does not check stored values against newly declared columns or types; `percolator
// schema apply` does, before it calls CreateSchema. A Column that reads a value of another type
// returns ErrCorrupt; untyped reads return the bytes.
//
// A writer that has not yet read the new schema omits the notifications and index entries that the
// schema adds. Clients reread the schema, and refuse to commit when their copy is older than
// Timing.MetaMaxAge. So an addition to a table in use takes effect everywhere Timing.MetaMaxAge
// after CreateSchema has returned.
//
// Errors: ErrInvalidArgument, ErrSchemaMismatch, ErrCorrupt, those of the store; ErrTooLarge for a
// schema that is too long to be stored; admin.ErrImporting for another TTL in a table into which an
// import is unfinished.
func CreateSchema(ctx context.Context, project, instance string, s *Schema, opts ...option.ClientOption) error {
	if project == "" || instance == "" {
		return fmt.Errorf("percolator: %w: CreateSchema needs a project and an instance", ErrInvalidArgument)
	}
	return meta.ApplySchema(ctx, project, instance, "", model.TableProtection{}, s, opts...)
}
