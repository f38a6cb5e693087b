package model

import (
	"fmt"
	"strconv"
)

// SchemaPlan is what CreateSchema would find and do.
type SchemaPlan struct {
	Stored  StoredSchema
	Changes []SchemaChange // empty: everything is as the schema says
}

// Refused is the first change that CreateSchema would refuse, as ErrSchemaMismatch; nil: it would
// make them all.
func (p SchemaPlan) Refused() error {
	for _, ch := range p.Changes {
		if err := ch.Err(); err != nil {
			return err
		}
	}
	return nil
}

// SchemaChange is one difference between the stored schema and another one.
type SchemaChange struct {
	Kind  SchemaChangeKind
	Table string // "" for what concerns the instance
	Name  string // of the column or index; of what Bigtable lacks, TABLE or TABLE:FAMILY
	Index Index  // new or old, for Index…, and for BigtableTableMissing of an index
	// Column is a declaration as it is to be, and Was as it was, perhaps by another prefix; zero if
	// there was or will be none. Of a table they have TTL and NotifyExpired.
	Column, Was ColumnSchema
	// Backfill: what is already in the table does not get the new index, observer or journal by
	// itself. An index needs admin.Admin.BackfillIndex; each observer of a column needs
	// admin.Admin.BackfillObserver if it is to see existing cells; a journal needs one sweep.
	Backfill bool

	Deletes bool // dropping the declaration deletes its cells; only such may be dropped
}

// SchemaChangeKind is the kind of a SchemaChange.
type SchemaChangeKind string

// The changes that CreateSchema makes, and those that it refuses.
const (
	TableAdded    SchemaChangeKind = "table added"
	ObservedAdded SchemaChangeKind = "observed column added"
	WeakAdded     SchemaChangeKind = "weak column added"
	IndexAdded    SchemaChangeKind = "index added"
	// Of a table in the stored schema.
	BigtableTableMissing SchemaChangeKind = "bigtable table created"
	FamilyMissing        SchemaChangeKind = "column family created"
	JournalAdded         SchemaChangeKind = "journal added"
	JournalRemoved       SchemaChangeKind = "journal removed"
	ColumnDeclared       SchemaChangeKind = "column declared"
	TypeChanged          SchemaChangeKind = "column type changed"
	TTLChanged           SchemaChangeKind = "TTL changed" // or NotifyExpired

	TableRemoved    SchemaChangeKind = "table removed"
	ObservedRemoved SchemaChangeKind = "observed column removed"
	WeakRemoved     SchemaChangeKind = "weak column removed"
	IndexRemoved    SchemaChangeKind = "index removed"
	IndexChanged    SchemaChangeKind = "index changed"
	ColumnRemoved   SchemaChangeKind = "column declaration removed"
	TimingChanged   SchemaChangeKind = "timing changed"
	// TTLRemoved: an indexed column is to live until it is deleted. If a client of an earlier
	// version put a value again, its entry would expire, and the value would not.
	TTLRemoved SchemaChangeKind = "time to live of an indexed column removed"
)

// Err is the ErrSchemaMismatch with which CreateSchema refuses the change; nil: it makes the
// change.
func (ch SchemaChange) Err() error {
	switch ch.Kind {
	case TableRemoved:
		return ch.err("the stored schema has this table, the new one does not: add it to the new one, or give that a name of its own; or drop the table, with percolator schema apply --drop")
	case ObservedRemoved:
		return ch.err("column %q is observed in the stored schema and not in the new one; deploy workers without its observers, then percolator schema apply --drop", ch.Name)
	case WeakRemoved:
		return ch.err("column %q is weak in the stored schema and not in the new one; deploy workers without its observers, then percolator schema apply --drop", ch.Name)
	case IndexRemoved:
		return ch.err("index %q of the stored schema is missing in the new one; percolator schema apply --drop drops it", ch.Name)
	case IndexChanged:
		return ch.err("index %q of the stored schema is different in the new one", ch.Name)
	case TTLRemoved:
		return ch.err("column %q has an index, so it cannot lose its TTL; choose a long one, or drop the index first", ch.Name)
	case ColumnRemoved:
		if ch.Deletes {
			return ch.err("column %q is declared in the stored schema and not in the new one; percolator schema apply --drop deletes its cells", ch.Name)
		}
		return ch.err("column %q is declared in the stored schema and not in the new one; only a column of its own name is dropped, where others stay declared and none of them means it", ch.Name)
	case ColumnDeclared, TypeChanged:
		if was := ch.Was.Type; was != "" && was != TypeBytes && was != ch.Column.Type {
			return ch.err("column %q is declared %s in the stored schema and %s in the new one; only bytes can become another type", ch.Name, was, ch.Column.Type)
		}
	case TimingChanged:
		return fmt.Errorf("percolator: %w: the stored schema has other Timing, which cannot be changed while clients may run", ErrSchemaMismatch)
	}
	return nil
}

// String names what changes, as the command that applies it does: "observed column added:
// documents/contents".
func (ch SchemaChange) String() string {
	switch {
	case ch.Table == "" && ch.Name == "":
		return string(ch.Kind)
	case ch.Table == "":
		return fmt.Sprintf("%s: %s", ch.Kind, ch.Name)
	case ch.Name == "":
		return fmt.Sprintf("%s: %s", ch.Kind, ch.Table)
	}
	return fmt.Sprintf("%s: %s/%s", ch.Kind, ch.Table, strconv.Quote(ch.Name))
}

// Droppable reports whether a drop makes the change.
func (ch SchemaChange) Droppable() bool {
	switch ch.Kind {
	case TableRemoved, IndexRemoved, ObservedRemoved, WeakRemoved:
		return true
	}
	return ch.Deletes
}

func (ch SchemaChange) err(format string, args ...any) error {
	return fmt.Errorf("percolator: table %q: %w: %s", ch.Table, ErrSchemaMismatch, fmt.Sprintf(format, args...))
}
