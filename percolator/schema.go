package percolator

import (
	"context"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/model"
)

// Schema is the set of Percolator tables of an instance.
type Schema = model.Schema

// Table describes one table.
type Table = model.Table

// ColumnSchema declares a column of a table, or all whose names begin with a prefix.
type ColumnSchema = model.ColumnSchema

// MaxDeclaredColumns is how many Columns a Table may have.
const MaxDeclaredColumns = model.MaxDeclaredColumns

// Type is the type of the values of a column.
type Type = model.Type

// The types of columns, and the Column that reads and writes each. The bytes of string,
// ordered_int64, float64, bool and time sort as the values do, in indexes and in row keys.
const (
	TypeBytes        = model.TypeBytes        // any bytes: Bytes, Proto
	TypeString       = model.TypeString       // UTF-8: String
	TypeInt64        = model.TypeInt64        // 8 bytes big-endian: Int64
	TypeOrderedInt64 = model.TypeOrderedInt64 // 8 bytes big-endian, the sign bit flipped
	TypeFloat64      = model.TypeFloat64      // 8 bytes that sort as the numbers do
	TypeBool         = model.TypeBool         // one byte, 0 or 1
	// UTC nanoseconds since 1970, as ordered_int64; 1678 to 2262.
	TypeTime = model.TypeTime
	TypeJSON = model.TypeJSON // one JSON text: JSON
)

// Index is a secondary index over the bytes of one column, maintained in the transaction that
// writes the column.
type Index = model.Index

// Timing is what every client of an instance must agree on.
type Timing = model.Timing

// Stats are the counters of a client since NewClient.
type Stats = model.Stats

// ValidateSchema reports, without an instance, what CreateSchema refuses in any: ErrInvalidArgument
// for names, types and times that no schema may have; ErrTooLarge for too many tables or columns.
func ValidateSchema(s *Schema) error { return catalog.Validate(s) }

// CreateSchema stores s in the instance and creates its tables: each with four families, the tables
// of indexes, and percolator_meta. It is idempotent and takes at most 5 min. A schema that adds
// tables, observed columns, weak columns, indexes or Columns, that has other TTLs, or another type
// for what was bytes, replaces the stored one. A schema that lacks something of the stored one, or
// has another Timing or type, or a table of a schema with another name, is refused with
// ErrSchemaMismatch; nothing is ever deleted.
// CreateSchema sets no native garbage collection: an age policy would compare the oracle's
// timestamps with Bigtable's clock.
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
// CreateSchema does not look at the data of a table that declares columns, or types, from now on:
// `percolator schema apply` does, before. Values that are not of the new type are read as they are,
// and typed columns give ErrCorrupt.
//
// A writer that has not yet seen the new schema omits its notifications and index entries. Clients
// re-read the schema, adopt additions, and refuse to commit on knowledge older than
// Timing.MetaMaxAge. So an addition to a table in use takes effect everywhere Timing.MetaMaxAge
// after CreateSchema has returned.
//
// Errors: ErrInvalidArgument, ErrSchemaMismatch, ErrCorrupt, those of the store; ErrTooLarge for a
// schema that is too long to be stored; admin.ErrImporting for another TTL in a table into which an
// import is unfinished.
func CreateSchema(ctx context.Context, project, instance string, s *Schema, opts ...option.ClientOption) error {
	return meta.ApplySchema(ctx, project, instance, "", model.TableProtection{}, s, opts...)
}
