package meta

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// A schema only grows, but for its journal. Every client would have to unlearn at once what it
// loses: a worker that still runs an observer, a writer that still maintains an index, a collector
// that must resolve the locks of a table before the records on which they depend are gone.

// mostDrift bounds the changes that one error names.
const mostDrift = 8

// driftOf is the change as a difference between two schemas that no one applies: "it lacks the
// table documents".
func driftOf(ch model.SchemaChange) string {
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
		b.WriteString(driftOf(ch))
	}
	if n := len(changes) - mostDrift; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return b.String()
}

// schemaChanges lists the differences of next, in the order of names; old may be nil.
func schemaChanges(old, next *model.Schema) (changes []model.SchemaChange) {
	if old == nil {
		old = &model.Schema{Timing: next.Timing, DisableJournal: next.DisableJournal}
	}
	old, next = catalog.NormalizeSchema(old), catalog.NormalizeSchema(withTimingOf(old.Timing, next))
	if old.Timing != next.Timing {
		changes = append(changes, model.SchemaChange{Kind: model.TimingChanged})
	}
	switch {
	case old.DisableJournal && !next.DisableJournal:
		changes = append(changes, model.SchemaChange{Kind: model.JournalAdded, Backfill: true})
	case next.DisableJournal && !old.DisableJournal:
		changes = append(changes, model.SchemaChange{Kind: model.JournalRemoved})
	}
	had, have := catalog.New(old), catalog.New(next)
	for _, t := range old.Tables {
		if _, ok := have.UserTable(t.Name); !ok {
			changes = append(changes, model.SchemaChange{Kind: model.TableRemoved, Table: t.Name})
		}
	}
	for _, t := range next.Tables {
		before, existed := had.UserTable(t.Name)
		if !existed {
			changes = append(changes, model.SchemaChange{Kind: model.TableAdded, Table: t.Name})
			before = &catalog.TableInfo{}
		}
		changes = append(changes, columnChanges(before.Observed, t.Observed, model.SchemaChange{Kind: model.ObservedAdded, Table: t.Name, Backfill: existed}, model.ObservedRemoved)...)
		changes = append(changes, columnChanges(before.Weak, t.Weak, model.SchemaChange{Kind: model.WeakAdded, Table: t.Name}, model.WeakRemoved)...)
		changes = append(changes, indexChanges(t.Name, before.Indexes, t.Indexes, existed)...)
		changes = append(changes, ttlChanges(before, have.Tables[t.Name])...)
		changes = append(changes, declarationChanges(before, have.Tables[t.Name])...)
	}
	return changes
}

// withTimingOf is s with the Timing of an instance where s leaves it open.
func withTimingOf(instance model.Timing, s *model.Schema) *model.Schema {
	out := *s
	out.Timing = catalog.InheritTiming(s.Timing, instance)
	return &out
}

// columnChanges compares two sorted lists. It completes added by the name.
func columnChanges(old, next []string, added model.SchemaChange, removed model.SchemaChangeKind) (changes []model.SchemaChange) {
	for _, name := range old {
		if !slices.Contains(next, name) {
			changes = append(changes, model.SchemaChange{Kind: removed, Table: added.Table, Name: name})
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
func ttlChanges(old, next *catalog.TableInfo) (changes []model.SchemaChange) {
	for _, ix := range next.Indexes {
		if slices.Contains(old.Indexes, ix) && old.TTLOf(ix.Column) != 0 && next.TTLOf(ix.Column) == 0 {
			changes = append(changes, model.SchemaChange{Kind: model.TTLRemoved, Table: next.Name, Name: ix.Column})
		}
	}
	return changes
}

func indexChanges(table string, old, next []model.Index, existed bool) (changes []model.SchemaChange) {
	named := func(list []model.Index, name string) int {
		return slices.IndexFunc(list, func(ix model.Index) bool { return ix.Name == name })
	}
	for _, ix := range old {
		switch at := named(next, ix.Name); {
		case at < 0:
			changes = append(changes, model.SchemaChange{Kind: model.IndexRemoved, Table: table, Name: ix.Name, Index: ix})
		case next[at] != ix:
			changes = append(changes, model.SchemaChange{Kind: model.IndexChanged, Table: table, Name: ix.Name, Index: next[at]})
		}
	}
	for _, ix := range next {
		if named(old, ix.Name) < 0 {
			changes = append(changes, model.SchemaChange{Kind: model.IndexAdded, Table: table, Name: ix.Name, Index: ix, Backfill: existed})
		}
	}
	return changes
}

// declarationChanges compares TTLs and declared columns.
func declarationChanges(old, next *catalog.TableInfo) (changes []model.SchemaChange) {
	ttl := func(column, was model.ColumnSchema) {
		if column.TTL != was.TTL || column.NotifyExpired != was.NotifyExpired {
			changes = append(changes, model.SchemaChange{Kind: model.TTLChanged, Table: next.Name, Name: column.Name, Column: column, Was: was})
		}
	}
	ttl(model.ColumnSchema{TTL: next.TTL, NotifyExpired: next.NotifyExpired}, model.ColumnSchema{TTL: old.TTL, NotifyExpired: old.NotifyExpired})
	for _, was := range old.Declared.Columns() {
		if _, ok := next.Declared.Named(was.Name); !ok {
			_, meant := next.Declared.For(was)
			deletes := !strings.HasSuffix(was.Name, "*") && next.Declared != nil && !meant
			changes = append(changes, model.SchemaChange{Kind: model.ColumnRemoved, Table: next.Name, Name: was.Name, Was: was, Deletes: deletes})
		}
	}
	for _, column := range next.Declared.Columns() {
		ch := model.SchemaChange{Kind: model.TypeChanged, Table: next.Name, Name: column.Name, Column: column}
		named := false
		if ch.Was, named = old.Declared.Named(column.Name); !named {
			ch.Kind = model.ColumnDeclared
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
func covers(s, old *model.Schema) error {
	return model.SchemaPlan{Changes: schemaChanges(old, s)}.Refused()
}
