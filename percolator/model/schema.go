package model

import (
	"time"
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
// the paper; docs/PROTOCOL.md, I10).
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
	// or turns off the one that there is. See docs/PROTOCOL.md, "The journal".
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
// admin.Admin.VerifyIndex compares an index with its table. See docs/PROTOCOL.md, "Indexes".
type Index struct {
	Name, Column string
	Unique       bool `json:",omitempty"` // two rows cannot hold the same value: ErrUnique
}
