package percolator

import (
	"context"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/model"
)

// Schema is the set of Percolator tables of an instance. It is stored in the instance and
// versioned, because a writer with another schema would silently omit notifications (section 2.4 of
// the paper; docs/PROTOCOL.md, I10):
//
//	Name           string   // of a team's tables, where several share an instance
//	Tables         []Table
//	Timing         Timing
//	DisableJournal bool     // find unfinished work and garbage by passes over the tables
//	Dropping       []string // Bigtable tables whose drop is unfinished; only in a stored schema
//
// Schemas with different names share an instance, in which a table's name occurs once. CreateSchema
// changes, and Config.Schema is compared with, the tables of the schema with that name alone. The
// stored schema has the tables of all.
//
// Validate reports what is wrong with it.
type Schema = model.Schema

// Table describes one table. Columns need no declaration, except those that notify:
//
//	Name     string
//	Observed []string // columns whose writes notify observers
//	Weak     []string // columns that can only be notified, never written
//	Indexes  []Index
//	Splits   []string // initial split keys, used when the table is created
//	Columns  []ColumnSchema
//	TTL      time.Duration // 0: values live until they are deleted; at least 1 s
//	NotifyExpired bool     // observers hear when a value with this TTL has expired
//	Schema   string   // the name of the schema that has the table; "": Schema.Name
//
// A table with Columns has no others: naming one that is not declared, to write it, to read it, or
// as an observed, weak or indexed one, is ErrInvalidArgument. So is a value that is not of the
// declared type. Reads never check values, and a Scan of all columns also gives what was written
// before the columns were declared. At most MaxDeclaredColumns.
//
// With NotifyExpired collection deletes what has expired, in transactions: observers of the column
// run as for any deletion, and watchers are told of it, when the retention has passed since the
// value expired. Without it no observer hears of that. It stands beside a TTL that an observed
// column has, or the schema is invalid.
type Table = model.Table

// ColumnSchema declares a column, or several:
//
//	Name          string
//	Type          Type          // "": TypeBytes
//	TTL           time.Duration // 0: that of the table, with its NotifyExpired
//	NotifyExpired bool          // observers hear when a value with this TTL has expired
//
// A Name that ends in "*" declares all columns whose names begin with what stands before it, such
// as "item:*"; there is no way to declare one column whose name ends in "*". A column's own
// declaration goes before that of a prefix, and a long prefix before a short one.
type ColumnSchema = model.ColumnSchema

// MaxDeclaredColumns is how many Columns a Table may have.
const MaxDeclaredColumns = model.MaxDeclaredColumns

// Type is the type of a column's values. Check reports what keeps bytes from being one, Format is
// the text form of one, as commands show it, and Parse its inverse, which refuses NaN. Their errors
// never quote values.
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

// Index{Name, Column string; Unique bool} is a secondary index over the bytes of one column,
// maintained in the transaction that writes the column. Its entries live in a table of their own,
// named TABLE.INDEX. With Unique two rows cannot hold the same value: ErrUnique.
//
// An index that is added to a table of the stored schema is building until
// admin.Admin.BackfillIndex has finished. Until then ScanIndex gives ErrSchemaMismatch, and a
// unique index refuses those duplicates of which it knows.
type Index = model.Index

// Timing is what every client of an instance must agree on: a collector infers from it what other
// clients can no longer do. It is stored with the schema and can never be changed. A schema that
// leaves it open, with zeros, fits whatever is stored; the first one of an instance gets the
// defaults, or what admin.Instance.ProposeTiming has stored:
//
//	RequestLifetime time.Duration // no request is sent or repeated after it; 0: 30 s; 100 ms to 30 s
//	MetaMaxAge      time.Duration // a client whose knowledge of schema and safepoint is older
//	                              // refuses to commit and to read; 0: 45 s; 200 ms to 10 min, and
//	                              // not less than RequestLifetime
type Timing = model.Timing

// Stats are the counters of a client since NewClient:
//
//	Transactions              int64 // committed with at least one write or notification
//	Conflicts                 int64 // attempts that ended in ErrConflict
//	Aborts                    int64 // attempts that were rolled back for another reason
//	RolledForward, RolledBack int64 // cells of other transactions that lock resolution resolved
//	Notifications             int64 // notify cells written
//	Unknown                   int64 // commits that ended in ErrOutcomeUnknown
//	LateRecords               int64 // put records without their data below the GC watermark
//	LockWaits                 int64 // reads that met a lock and had to wait or to resolve it
//
//	LockWaitTime          time.Duration                  // how long all of them took together
//	Requests              map[string]int64               // calls by kind
//	RowsRead, RowsMutated int64                          // by these calls
//	Latency               map[string]model.LatencyCounts // how long calls took, by operation
//	Contention            model.Contention               // how Updates queue, and most contended cells
//
// The kinds of Requests are "ReadRows", "CheckAndMutateRow", "MutateRows", "SampleRowKeys" and
// "Oracle", without the retries inside Google's client. The operations of Latency are "begin",
// "get", "get_multi", "scan" (each page), "commit" (with writes), and the kinds of requests but
// "SampleRowKeys"; they include failed calls, but no reads that the snapshot or the transaction's
// own writes answered. LateRecords are traces of commits that landed after collection; reads take
// them as absent.
type Stats = model.Stats

// CreateSchema stores s in the instance and creates its tables: each with four families, the tables
// of indexes, and percolator_meta. It is idempotent and takes at most 5 min. A schema that adds
// tables, observed columns, weak columns, indexes or Columns, that has other TTLs, or another type
// for what was bytes, replaces the stored one. A schema that lacks something of the stored one, or
// has another Timing or type, or a table of a schema with another name, is refused with
// ErrSchemaMismatch; nothing is ever deleted.
// CreateSchema sets no native garbage collection: an age policy would compare the oracle's
// timestamps with Bigtable's clock.
//
// A new instance has a journal, complete at once, unless DisableJournal is set. An instance without
// one gets it when DisableJournal is not set: it is building until a sweep has ended
// (admin.Sweeper). With DisableJournal set the journal of an instance is turned off. Programs whose
// Config.Schema differs from the stored one in that alone work on.
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
// Timing.MetaMaxAge. So additions to tables in use are in force that long after CreateSchema has
// returned.
//
// Errors: ErrInvalidArgument, ErrSchemaMismatch, ErrCorrupt, those of the store;
// admin.ErrImporting for another TTL in a table into which an import is unfinished.
func CreateSchema(ctx context.Context, project, instance string, s *Schema, opts ...option.ClientOption) error {
	return meta.ApplySchema(ctx, project, instance, "", s, opts...)
}
