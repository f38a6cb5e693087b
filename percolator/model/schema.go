package model

import (
	"fmt"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// MetaTable holds one row with the schema, the safepoint and the GC watermark, and the oracle's row
// when Bigtable keeps that: tso.BigtableTable.
const MetaTable = "percolator_meta"

// JournalTable records what transactions are about to write.
const JournalTable = "percolator_journal"

// MaxTables is how many tables an instance of Bigtable may have. Each index is one, and so are
// MetaTable and JournalTable.
const MaxTables = 1000

// Schema is the set of Percolator tables of an instance. It is stored in the instance and
// versioned, because a writer with another schema would silently omit notifications (section 2.4 of
// the paper; docs/internals/PROTOCOL.md, I10).
//
// Schemas with different names share an instance, in which a table's name occurs once. CreateSchema
// changes, and Config.Schema is compared with, the tables of the schema with that name alone. The
// stored schema has the tables of all.
type Schema struct {
	// Name tells the schemas of several teams on one instance apart; their tables share one
	// namespace. In the stored schema, which has the tables of all, each Table has it instead.
	Name   string `json:"-"`
	Tables []Table
	Timing Timing `json:",omitzero"`

	// DisableJournal leaves out the journal, by which unfinished work and garbage are found:
	// workers and collectors then pass over all tables. CreateSchema gives an instance a journal,
	// or turns off the one that there is. See docs/internals/PROTOCOL.md, "The journal".
	DisableJournal bool `json:",omitempty"`

	// Dropping lists the Bigtable tables whose drop is unfinished. Only a stored schema has them;
	// CreateSchema ignores them.
	Dropping []string `json:",omitempty"`
}

// Table describes one table. Its columns need no declaration, except those that notify.
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
type Table struct {
	Name     string         // as Bigtable accepts it, without a dot
	Observed []string       `json:",omitempty"` // columns whose writes notify observers
	Weak     []string       `json:",omitempty"` // columns that can only be notified, never written
	Indexes  []Index        `json:",omitempty"`
	Splits   []string       `json:",omitempty"` // initial split keys, for the table's creation
	Columns  []ColumnSchema `json:",omitempty"` // empty: any column, of bytes
	TTL      time.Duration  `json:",omitempty"` // 0: values live until they are deleted

	NotifyExpired bool `json:",omitempty"` // observers hear when a value with this TTL has expired

	Schema string `json:",omitempty"` // the name of the schema that declares it; "": Schema.Name
}

// Index is a secondary index over the bytes of one column, maintained in the transaction that
// writes the column. Its entries live in a table of their own, named after the table and the index.
//
// An index that CreateSchema adds to a stored table is incomplete until admin.Admin.BackfillIndex
// has finished: cells older than the index lack their entries. Until then ScanIndex gives
// ErrSchemaMismatch, and a unique index refuses only the duplicates that it knows of.
// admin.Admin.VerifyIndex compares an index with its table. See docs/internals/PROTOCOL.md,
// "Indexes".
type Index struct {
	Name, Column string
	Unique       bool `json:",omitempty"` // two rows cannot hold the same value: ErrUnique
}

// ColumnSchema declares a column, or several: a Name that ends in "*" declares all columns whose
// names begin with what stands before it, such as "item:*". There is no way to declare one column
// whose name ends in "*". A column's own declaration goes before that of a prefix, and a long
// prefix before a short one.
type ColumnSchema struct {
	Name string        // up to a final "*", the prefix of the names of columns
	Type Type          `json:",omitempty"` // "": TypeBytes
	TTL  time.Duration `json:",omitempty"` // 0: that of the table

	NotifyExpired bool `json:",omitempty"` // observers hear when a value has expired; needs a TTL
}

// MaxDeclaredColumns is how many declarations of columns a table may have.
const MaxDeclaredColumns = 1000

// StoredSchema is the schema of an instance, and how far its indexes can be trusted. The zero value
// stands for an instance without a schema.
type StoredSchema struct {
	Schema  *Schema // in a fixed order, without Splits; nil: none is stored
	Version uint64  // grows with each change, and when an index becomes ready
	// Indexes tells how far each index of the schema can be trusted. The key is the index's
	// Bigtable table, TABLE.INDEX.
	Indexes map[string]IndexState
	// Journal tells how far the journal can be trusted, if the schema does not disable it.
	Journal JournalState
	// Dropping lists the tables of Bigtable whose drop is unfinished.
	Dropping []string
}

// IndexState tells how far an index can be trusted. The zero value stands for one that was created
// with its table and has always been complete.
type IndexState struct {
	// Incomplete: ScanIndex refuses it until BackfillIndex ends.
	Building bool          `json:",omitempty"`
	Since    tso.Timestamp `json:",omitempty"` // ScanIndex refuses snapshots below it
}

// Complete reports whether every cell of a snapshot at ts has its entry.
func (st IndexState) Complete(ts tso.Timestamp) bool { return !st.Building && ts >= st.Since }

// JournalState tells how far the journal can be trusted. The zero value stands for one that was
// created with the instance and has always been complete.
type JournalState struct {
	// Names the current building, during which passes find what was written before it.
	Building string `json:",omitempty"`
	// Older work was announced below it, so from this safepoint on collection goes by the journal.
	Since tso.Timestamp `json:",omitempty"`
}

// Timing is what every client of an instance must agree on: a collector infers from it what other
// clients can no longer do. It is stored with the schema and can never be changed. A schema that
// leaves it open, with zeros, fits whatever is stored; the first one of an instance gets the
// defaults, or what admin.Instance.ProposeTiming has stored.
type Timing struct {
	// RequestLifetime bounds every request: no client sends or repeats one after it
	// (docs/internals/PROTOCOL.md, I14). 0: 30 s, which is also the most; at least 100 ms.
	RequestLifetime time.Duration `json:",omitzero"`

	// MetaMaxAge is the age of its knowledge of schema and safepoint at which a client refuses to
	// commit and to answer reads (I16). Clients read both again at a quarter of it. A change of the
	// schema is in force that long after it was stored. 0: 45 s. From 200 ms to 10 min, and no less
	// than RequestLifetime: an answer that takes its whole lifetime is not too old when it arrives.
	MetaMaxAge time.Duration `json:",omitzero"`
}

// DefaultTiming is what the zero Timing stands for.
var DefaultTiming = Timing{RequestLifetime: 30 * time.Second, MetaMaxAge: 45 * time.Second}

// TableProtection is what a new table of Bigtable has against its loss, beside what collection and
// backups of this library do. The zero value leaves both to Bigtable, which protects nothing.
type TableProtection struct {
	// Nobody deletes the table before this is turned off.
	Deletion bool
	// How long Bigtable keeps the backup that it makes of the table once a day, 3 to 90 days; 0: it
	// makes none. Half a transaction may be missing in it (docs/DISASTER.md).
	Backups time.Duration
}

// Bounds of TableProtection.Backups, which are Bigtable's.
const (
	MinTableBackups = 3 * 24 * time.Hour
	// MaxTableBackups, 90 days, is the longest. Beyond it creating a table is ErrInvalidArgument.
	MaxTableBackups = 90 * 24 * time.Hour
)

// Check refuses, with ErrInvalidArgument, what Bigtable would.
func (p TableProtection) Check() error {
	if p.Backups != 0 && (p.Backups < MinTableBackups || p.Backups > MaxTableBackups) {
		return fmt.Errorf("percolator: %w: tables' backups for %s: 0, or %s to %s", ErrInvalidArgument, p.Backups, MinTableBackups, MaxTableBackups)
	}
	return nil
}
