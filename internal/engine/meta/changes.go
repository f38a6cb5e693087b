package meta

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/percolator/model"
)

// A schema only grows, but for its journal. Every client would have to unlearn at once what it
// loses: a worker that still runs an observer, a writer that still maintains an index, a collector
// that must resolve the locks of a table before the records on which they depend are gone.

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

// SchemaChange is one difference between the stored schema and another one.
type SchemaChange struct {
	Kind  SchemaChangeKind
	Table string      // "" for what concerns the instance
	Name  string      // of the column or index; of what Bigtable lacks, TABLE or TABLE:FAMILY
	Index model.Index // new or old, for Index…, and for BigtableTableMissing of an index
	// Column is a declaration as it is to be, and Was as it was, perhaps by another prefix; zero if
	// there was or will be none. Of a table they have TTL and NotifyExpired.
	Column, Was model.ColumnSchema
	// Backfill: what is already in the table does not get the new index, observer or journal by
	// itself. An index needs admin.Admin.BackfillIndex; each observer of a column needs
	// admin.Admin.BackfillObserver if it is to see existing cells; a journal needs one sweep.
	Backfill bool

	deletes bool // dropping the declaration deletes its cells; only such may be dropped
}

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
		if ch.deletes {
			return ch.err("column %q is declared in the stored schema and not in the new one; percolator schema apply --drop deletes its cells", ch.Name)
		}
		return ch.err("column %q is declared in the stored schema and not in the new one; only a column of its own name is dropped, where others stay declared and none of them means it", ch.Name)
	case ColumnDeclared, TypeChanged:
		if was := ch.Was.Type; was != "" && was != model.TypeBytes && was != ch.Column.Type {
			return ch.err("column %q is declared %s in the stored schema and %s in the new one; only bytes can become another type", ch.Name, was, ch.Column.Type)
		}
	case TimingChanged:
		return fmt.Errorf("percolator: %w: the stored schema has other Timing, which cannot be changed while clients may run", model.ErrSchemaMismatch)
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

// mostDrift bounds the changes that one error names.
const mostDrift = 8

// drift is the change as a difference between two schemas that no one applies: "it lacks the table
// documents".
func (ch SchemaChange) drift() string {
	kind := string(ch.Kind)
	place := strings.TrimPrefix(ch.String(), kind+": ")
	if what, ok := strings.CutSuffix(kind, " removed"); ok {
		return "it lacks the " + what + " " + place
	}
	if what, ok := strings.CutSuffix(kind, " added"); ok {
		return "it has the " + what + " " + place
	}
	return ch.String()
}

// drift says how next differs from the stored schema, but for what SameButForJournal leaves out.
func drift(stored, next *model.Schema) string {
	like := *next
	like.DisableJournal = stored.DisableJournal
	changes := schemaChanges(stored, &like)
	var b strings.Builder
	for i, ch := range changes[:min(len(changes), mostDrift)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(ch.drift())
	}
	if n := len(changes) - mostDrift; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return b.String()
}

func (ch SchemaChange) err(format string, args ...any) error {
	return fmt.Errorf("percolator: table %q: %w: %s", ch.Table, model.ErrSchemaMismatch, fmt.Sprintf(format, args...))
}

func refusal(changes []SchemaChange) error {
	for _, ch := range changes {
		if err := ch.Err(); err != nil {
			return err
		}
	}
	return nil
}

// schemaChanges lists the differences of next, in the order of names; old may be nil.
func schemaChanges(old, next *model.Schema) (changes []SchemaChange) {
	if old == nil {
		old = &model.Schema{Timing: next.Timing, DisableJournal: next.DisableJournal}
	}
	old, next = model.NormalizeSchema(old), model.NormalizeSchema(withTimingOf(old.Timing, next))
	if old.Timing != next.Timing {
		changes = append(changes, SchemaChange{Kind: TimingChanged})
	}
	switch {
	case old.DisableJournal && !next.DisableJournal:
		changes = append(changes, SchemaChange{Kind: JournalAdded, Backfill: true})
	case next.DisableJournal && !old.DisableJournal:
		changes = append(changes, SchemaChange{Kind: JournalRemoved})
	}
	had, have := model.NewCatalog(old), model.NewCatalog(next)
	for _, t := range old.Tables {
		if _, ok := have.UserTable(t.Name); !ok {
			changes = append(changes, SchemaChange{Kind: TableRemoved, Table: t.Name})
		}
	}
	for _, t := range next.Tables {
		before, existed := had.UserTable(t.Name)
		if !existed {
			changes = append(changes, SchemaChange{Kind: TableAdded, Table: t.Name})
			before = &model.TableInfo{}
		}
		changes = append(changes, columnChanges(before.Observed, t.Observed, SchemaChange{Kind: ObservedAdded, Table: t.Name, Backfill: existed}, ObservedRemoved)...)
		changes = append(changes, columnChanges(before.Weak, t.Weak, SchemaChange{Kind: WeakAdded, Table: t.Name}, WeakRemoved)...)
		changes = append(changes, indexChanges(t.Name, before.Indexes, t.Indexes, existed)...)
		changes = append(changes, ttlChanges(before, have.Tables[t.Name])...)
		changes = append(changes, declarationChanges(before, have.Tables[t.Name])...)
	}
	return changes
}

// withTimingOf is s with the Timing of an instance where s leaves it open.
func withTimingOf(instance model.Timing, s *model.Schema) *model.Schema {
	out := *s
	out.Timing = model.InheritTiming(s.Timing, instance)
	return &out
}

// columnChanges compares two sorted lists. It completes added by the name.
func columnChanges(old, next []string, added SchemaChange, removed SchemaChangeKind) (changes []SchemaChange) {
	for _, name := range old {
		if !slices.Contains(next, name) {
			changes = append(changes, SchemaChange{Kind: removed, Table: added.Table, Name: name})
		}
	}
	for _, name := range next {
		if !slices.Contains(old, name) {
			added.Name = name
			changes = append(changes, added)
		}
	}
	return changes
}

// ttlChanges lists the indexed columns that lose their time to live. Any other change of one is in
// force for what is put from then on.
func ttlChanges(old, next *model.TableInfo) (changes []SchemaChange) {
	for _, ix := range next.Indexes {
		if slices.Contains(old.Indexes, ix) && old.TTLOf(ix.Column) != 0 && next.TTLOf(ix.Column) == 0 {
			changes = append(changes, SchemaChange{Kind: TTLRemoved, Table: next.Name, Name: ix.Column})
		}
	}
	return changes
}

func indexChanges(table string, old, next []model.Index, existed bool) (changes []SchemaChange) {
	named := func(list []model.Index, name string) int {
		return slices.IndexFunc(list, func(ix model.Index) bool { return ix.Name == name })
	}
	for _, ix := range old {
		switch at := named(next, ix.Name); {
		case at < 0:
			changes = append(changes, SchemaChange{Kind: IndexRemoved, Table: table, Name: ix.Name, Index: ix})
		case next[at] != ix:
			changes = append(changes, SchemaChange{Kind: IndexChanged, Table: table, Name: ix.Name, Index: next[at]})
		}
	}
	for _, ix := range next {
		if named(old, ix.Name) < 0 {
			changes = append(changes, SchemaChange{Kind: IndexAdded, Table: table, Name: ix.Name, Index: ix, Backfill: existed})
		}
	}
	return changes
}

// declarationChanges compares TTLs and declared columns.
func declarationChanges(old, next *model.TableInfo) (changes []SchemaChange) {
	ttl := func(column, was model.ColumnSchema) {
		if column.TTL != was.TTL || column.NotifyExpired != was.NotifyExpired {
			changes = append(changes, SchemaChange{Kind: TTLChanged, Table: next.Name, Name: column.Name, Column: column, Was: was})
		}
	}
	ttl(model.ColumnSchema{TTL: next.TTL, NotifyExpired: next.NotifyExpired}, model.ColumnSchema{TTL: old.TTL, NotifyExpired: old.NotifyExpired})
	for _, was := range old.Declared.Columns() {
		if _, ok := next.Declared.Named(was.Name); !ok {
			_, meant := next.Declared.For(was)
			deletes := !strings.HasSuffix(was.Name, "*") && next.Declared != nil && !meant
			changes = append(changes, SchemaChange{Kind: ColumnRemoved, Table: next.Name, Name: was.Name, Was: was, deletes: deletes})
		}
	}
	for _, column := range next.Declared.Columns() {
		ch := SchemaChange{Kind: TypeChanged, Table: next.Name, Name: column.Name, Column: column}
		named := false
		if ch.Was, named = old.Declared.Named(column.Name); !named {
			ch.Kind = ColumnDeclared
			ch.Was, _ = old.Declared.For(column)
		} else {
			ttl(column, ch.Was)
		}
		if !named || ch.Was.Type != column.Type {
			changes = append(changes, ch)
		}
	}
	return changes
}

// covers refuses s if it lacks something of old, which applying s would lose.
func covers(s, old *model.Schema) error { return refusal(schemaChanges(old, s)) }
