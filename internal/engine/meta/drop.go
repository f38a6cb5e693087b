package meta

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A table, or an index, is dropped in steps, each of which is stored (I26):
//
//	building   of an index only: from now on no client reads it; one MetaMaxAge later all know. A
//	           backfill that ends meanwhile opens it, and this step begins again
//	dropping   it is gone for programs; one drain later no client writes to it
//	resolve    the locks elsewhere whose primary is in it (package gc), while it can still be read
//	dropped    it is gone for the engine as well, and the meta row says until when it was there
//	deleted    its tables of Bigtable
//
// What is observed or weak in the schema stops to be, in the step "dropping" and no other: writers
// notify no more, and collection erases the notifications without observers. A declared column
// is deleted:
//
//	dropping   it is declared no more, and stands among what was dropped; one drain later no one
//	           writes it
//	deleted    its cells, by transactions (DeleteRange), and then it is forgotten
//
// A lock whose primary was in a table that was dropped, and of a transaction that began before, is
// one that no entry led to: its transaction has never committed (J8), and it is rolled back.

// columnDropped is the column of the meta row with what was dropped. It changes with the schema's
// version.
const columnDropped = "dropped"

// Drop tells what became of a table of Bigtable that the schema had once.
type Drop struct {
	At     tso.Timestamp // no later write to it; its locks elsewhere are resolved. Of a column: DroppedColumn.Began
	Exists bool          `json:",omitempty"` // it has still to be deleted
}

// Drops is keyed by the name in Bigtable, or, of a column of which there may still be cells, by
// columnKey.
type Drops map[string]Drop

// columnKey is the table and the column, quoted as in a stored schema if that is no UTF-8. No table
// has a colon in its name.
func columnKey(table, column string) string {
	if !utf8.ValidString(column) || strings.HasPrefix(column, `"`) {
		column = strconv.QuoteToASCII(column)
	}
	return table + ":" + column
}

// DroppedColumn is a column with cells that have still to be deleted.
type DroppedColumn struct {
	model.Cell
	Began tso.Timestamp // its drop. It may come back, and be dropped again
}

// DroppedColumns lists the columns with cells that have still to be deleted.
func (m State) DroppedColumns() (columns []DroppedColumn) {
	for _, key := range slices.Sorted(maps.Keys(m.Dropped)) {
		table, column, ok := strings.Cut(key, ":")
		if unquoted, err := strconv.Unquote(column); err == nil && strings.HasPrefix(column, `"`) {
			column = unquoted
		}
		if ok {
			columns = append(columns, DroppedColumn{model.Cell{Table: table, Column: column}, m.Dropped[key].At})
		}
	}
	return columns
}

// ForgetColumn ends the drop of a column whose cells were deleted.
func (w *Watcher) ForgetColumn(ctx context.Context, c DroppedColumn) error {
	_, err := w.publish(ctx, func(m State) (State, bool) {
		key := columnKey(c.Table, c.Column)
		if (m.Dropped[key] != Drop{At: c.Began, Exists: true}) {
			return m, false
		}
		drops := maps.Clone(m.Dropped)
		delete(drops, key)
		m.Dropped = drops
		return m, true
	})
	return err
}

// without is d but for the tables that s has.
func (d Drops) without(s *model.Schema) Drops {
	out := maps.Clone(d)
	for _, name := range catalog.AllTables(s) {
		delete(out, name)
	}
	return out
}

// left lists what has to be deleted, columns among it.
func (d Drops) left() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d)), func(name string) bool { return !d[name].Exists })
}

// admits refuses a schema with a table, or an index, that was dropped, as long as a snapshot from
// before may be read, or a transaction from before may commit: the new table would show less than
// there was then, and get what was meant for the former one.
func (m State) admits(s *model.Schema) error {
	for _, t := range s.Tables {
		for _, c := range t.Columns {
			if m.Dropped[columnKey(t.Name, c.Name)].Exists {
				return fmt.Errorf("percolator: table %q: %w: column %q is being dropped; finish that first (percolator schema apply --drop)", t.Name, model.ErrSchemaMismatch, c.Name)
			}
		}
		for _, name := range catalog.BigtableNames(t) {
			switch d := m.Dropped[name]; {
			case d.Exists:
				return fmt.Errorf("percolator: table %q: %w: it is being dropped; finish that first (percolator schema apply --drop)", name, model.ErrSchemaMismatch)
			case d.At > m.Safepoint:
				return fmt.Errorf("percolator: table %q: %w: it was dropped at %v, and snapshots from before can still be read; create it when the safepoint has passed that (percolator gc status)", name, model.ErrSchemaMismatch, d.At.Time())
			}
		}
	}
	return nil
}

// WasDropped reports whether a table that the schema does not have was dropped after ts.
func (w *Watcher) WasDropped(table string, ts tso.Timestamp) bool {
	m, _ := w.Snapshot()
	return m.Dropped[table].At >= ts
}

// checkDropped refuses what was read of tables that are gone: by then another one may have had the
// name of one of them.
func (m State) checkDropped(tables []string) error {
	for _, table := range tables {
		if d, dropped := m.Dropped[table]; dropped {
			return fmt.Errorf("percolator: table %q: %w: it was dropped at %v", table, model.ErrSchemaMismatch, d.At.Time())
		}
	}
	return nil
}

// removed lists the tables of Bigtable that next has no use for, and those of them that are indexes
// of tables that stay.
func removed(old, next *model.Schema) (names, indexes []string) {
	keep := catalog.New(next)
	for _, t := range old.Tables {
		_, stays := keep.UserTable(t.Name)
		for _, name := range catalog.BigtableNames(t) {
			if keep.Tables[name] != nil {
				continue
			}
			if names = append(names, name); stays {
				indexes = append(indexes, name)
			}
		}
	}
	return names, indexes
}

// CheckDrop is the ErrSchemaMismatch of what s asks for that neither CreateSchema nor a drop
// does, the ErrHeld of a hold, which keeps the snapshots of what would go, the ErrImporting of an
// import that writes there: its fence would outlive the table, and the ErrTooLarge of a drop that
// could not end. An index is closed only for a drop that it lets begin.
func (m State) CheckDrop(s *model.Schema, now tso.Timestamp) error {
	next, err := catalog.Beside(m.Schema, s)
	if err != nil {
		return err
	}
	names, _ := removed(m.Schema, next)
	from, drops := slices.Clone(names), slices.Clone(names)
	for _, ch := range schemaChanges(m.Schema, next) {
		if err := ch.Err(); err != nil && !ch.Droppable() {
			return err
		}
		if ch.Deletes {
			from, drops = append(from, ch.Table), append(drops, columnKey(ch.Table, ch.Name))
		}
	}
	for _, name := range from {
		if table, i := m.importOf(name); i.Phase != "" {
			return i.Refusal(table)
		}
	}
	if len(names) > 0 && m.HoldsAt(now) > 0 {
		return fmt.Errorf("percolator: %w: %d holds keep snapshots that show what is to be dropped; release them (percolator gc hold ls)", model.ErrHeld, m.HoldsAt(now))
	}
	if len(drops) == 0 {
		return nil
	}
	return m.roomForDrops(drops)
}

// roomForDrops refuses a drop that could not end: drops join what is remembered, and so do the
// tables of other drops that have started.
func (m State) roomForDrops(drops []string) error {
	all := Drops{}
	maps.Copy(all, m.Dropped)
	for _, name := range slices.Concat(m.Schema.Dropping, drops) {
		all[name] = Drop{At: tso.MaxTimestamp, Exists: true}
	}
	return m.roomFor(columnDropped, layout.JSON(all), "it remembers every name of a table that was dropped until one of that name is created, so create tables under such names")
}

// CloseIndexes closes for reads the indexes of tables that s keeps without them, and returns their
// states. Errors: those of CheckDrop.
func (w *Watcher) CloseIndexes(ctx context.Context, s *model.Schema, now tso.Timestamp) (closed IndexStates, err error) {
	_, err = w.publishDrop(ctx, s, now, func(m State, next *model.Schema) (State, bool) {
		_, indexes := removed(m.Schema, next)
		states, changed := IndexStates{}, false
		maps.Copy(states, m.Indexes)
		closed = IndexStates{}
		for _, name := range indexes {
			st := states[name]
			changed = changed || !st.Building
			st.Building = true // Since stays, by which BeginDrop knows the state again
			states[name], closed[name] = st, st
		}
		m.Indexes = states
		return m, changed
	})
	return closed, err
}

// publishDrop is publish for a drop, which each try checks by what is stored by then. Beside
// schemas of other names: another name's new table is none that s lacks.
func (w *Watcher) publishDrop(ctx context.Context, s *model.Schema, now tso.Timestamp, change func(m State, next *model.Schema) (State, bool)) (State, error) {
	var refused error
	m, err := w.publish(ctx, func(m State) (State, bool) {
		if refused = m.CheckDrop(s, now); refused != nil {
			return m, false
		}
		next, err := catalog.Beside(m.Schema, s)
		if refused = err; err != nil {
			return m, false
		}
		return change(m, next)
	})
	return m, errors.Join(err, refused)
}

// BeginDrop takes what s lacks away from programs, and returns the tables that are being dropped.
// closed is what CloseIndexes has returned, one MetaMaxAge ago. ok is false, and nothing is
// dropped, if an index is another than these, or was open meanwhile. Errors: those of CheckDrop.
func (w *Watcher) BeginDrop(ctx context.Context, s *model.Schema, now tso.Timestamp, closed IndexStates) (dropping []string, ok bool, err error) {
	m, err := w.publishDrop(ctx, s, now, func(m State, next *model.Schema) (State, bool) {
		names, indexes := removed(m.Schema, next)
		ok = true
		for _, name := range indexes {
			st := m.Indexes[name]
			ok = ok && st.Building && st == closed[name] // each IndexReady has a Since of its own
		}
		if !ok {
			return m, false
		}
		columns := slices.DeleteFunc(schemaChanges(m.Schema, next), func(ch model.SchemaChange) bool {
			return ch.Kind != model.ObservedRemoved && ch.Kind != model.WeakRemoved && !ch.Deletes
		})
		if len(names)+len(columns) == 0 {
			return m, false
		}
		gone, states, drops := catalog.SetOf(names), IndexStates{}, Drops{}
		maps.Copy(states, m.Indexes)
		maps.DeleteFunc(states, func(name string, _ model.IndexState) bool { return gone[name] })
		maps.Copy(drops, m.Dropped)
		ended := slices.Clone(names)
		for _, ch := range columns {
			if !ch.Deletes {
				ended = append(ended, observedKey(ch.Table, ch.Name))
			} else {
				drops[columnKey(ch.Table, ch.Name)] = Drop{At: now, Exists: true}
			}
		}
		m.Lives = m.ended(ended...)
		m.Schema, m.Indexes = catalog.WithDropping(without(m.Schema, gone), append(m.Schema.Dropping, names...)), states
		m.Schema, m.Dropped = withoutColumns(m.Schema, next, columns), drops
		return m, true
	})
	if err != nil {
		return nil, false, err
	}
	return m.Schema.Dropping, ok, nil
}

// without is the schema less some tables of Bigtable.
func without(s *model.Schema, gone map[string]bool) *model.Schema {
	out := *s
	out.Tables = nil
	for _, t := range s.Tables {
		if gone[t.Name] {
			continue
		}
		t.Indexes = slices.DeleteFunc(slices.Clone(t.Indexes), func(ix model.Index) bool { return gone[catalog.IndexTable(t.Name, ix)] })
		out.Tables = append(out.Tables, t)
	}
	return &out
}

// withoutColumns is the schema less what some changes remove of columns. Of those whose expiry
// observers hear it has what next has: what is no more observed cannot be among them.
func withoutColumns(s, next *model.Schema, changes []model.SchemaChange) *model.Schema {
	out, have := *s, catalog.New(next)
	out.Tables = slices.Clone(s.Tables)
	for i := range out.Tables {
		t := &out.Tables[i]
		is, of := have.Tables[t.Name], slices.DeleteFunc(slices.Clone(changes), func(ch model.SchemaChange) bool { return ch.Table != t.Name })
		if len(of) == 0 {
			continue
		}
		removed := func(kind model.SchemaChangeKind) func(string) bool {
			return func(name string) bool {
				return slices.ContainsFunc(of, func(ch model.SchemaChange) bool { return ch.Kind == kind && ch.Name == name })
			}
		}
		t.Observed = slices.DeleteFunc(slices.Clone(t.Observed), removed(model.ObservedRemoved))
		t.Weak = slices.DeleteFunc(slices.Clone(t.Weak), removed(model.WeakRemoved))
		t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c model.ColumnSchema) bool { return removed(model.ColumnRemoved)(c.Name) })
		t.NotifyExpired = t.NotifyExpired && is.NotifyExpired
		for j := range t.Columns {
			c := &t.Columns[j]
			named, _ := is.Declared.Named(c.Name)
			c.NotifyExpired = c.NotifyExpired && named.NotifyExpired
		}
	}
	return &out
}

// EndDrop takes what is being dropped away from the engine. at was asked for after the drain, and
// every lock elsewhere whose primary is there was resolved since.
func (w *Watcher) EndDrop(ctx context.Context, dropping []string, at tso.Timestamp) error {
	ours := catalog.SetOf(dropping)
	_, err := w.publish(ctx, func(m State) (State, bool) {
		var stay []string
		drops, ended := Drops{}, false
		maps.Copy(drops, m.Dropped)
		for _, name := range m.Schema.Dropping {
			if !ours[name] { // another call began later
				stay = append(stay, name)
				continue
			}
			drops[name], ended = Drop{At: at, Exists: true}, true
		}
		m.Schema, m.Dropped = catalog.WithDropping(m.Schema, stay), drops
		return m, ended
	})
	return err
}

// DeleteDropped deletes the tables of Bigtable that were dropped, and returns their names.
func (w *Watcher) DeleteDropped(ctx context.Context, deleteTable func(ctx context.Context, name string) error) ([]string, error) {
	m, err := w.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(m.Dropped.left(), func(name string) bool { return strings.Contains(name, ":") })
	for _, name := range names {
		if err := w.deleteOne(ctx, name, deleteTable); err != nil {
			return nil, err
		}
	}
	_, err = w.publish(ctx, func(m State) (State, bool) {
		drops, changed := Drops{}, false
		maps.Copy(drops, m.Dropped)
		for _, name := range names {
			if d := drops[name]; d.Exists {
				drops[name], changed = Drop{At: d.At}, true
			}
		}
		m.Dropped = drops
		return m, changed
	})
	return names, err
}

// deleteOne looks once more whether the table has to be deleted, and sends the request within its
// lifetime (I14): a table of that name may be created again by a client that has found it deleted,
// and not sooner than the retention after the drop.
func (w *Watcher) deleteOne(ctx context.Context, name string, deleteTable func(ctx context.Context, name string) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.Store.Timing.RequestLifetime)
	defer cancel()
	m, err := w.Refresh(ctx)
	if err != nil || !m.Dropped[name].Exists {
		return err
	}
	return deleteTable(ctx, name)
}

// TableDeleter opens a connection by which tables of Bigtable are deleted, which needs the
// permission bigtable.tables.delete. A table that is not there is deleted.
func TableDeleter(ctx context.Context, project, instance string, opts []option.ClientOption) (deleteTable func(context.Context, string) error, end func() error, err error) {
	admin, err := openAdmin(ctx, project, instance, opts)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, name string) error {
		if err := admin.DeleteTable(ctx, name); err != nil && status.Code(err) != codes.NotFound {
			return fmt.Errorf("percolator: deleting table %q: %w", name, retry.WithContext(ctx, err))
		}
		return nil
	}, admin.Close, nil
}
