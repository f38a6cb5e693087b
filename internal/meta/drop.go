package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// A table, or an index, is dropped in steps, each of which is stored (I26):
//
//	building   of an index only: from now on nobody reads it; one MetaMaxAge later all know
//	dropping   it is gone for programs; one drain later nobody writes to it any more
//	resolve    the locks elsewhere whose primary is in it (package gc), while it can still be read
//	dropped    it is gone for the engine as well, and the meta row says until when it was there
//	deleted    its tables of Bigtable
//
// A lock whose primary was in a table that was dropped, and of a transaction that began before, is
// one that no entry led to: its transaction has never committed (J8), and it is rolled back.

// columnDropped is the column of the meta row with what was dropped. It changes with the schema's
// version.
const columnDropped = "dropped"

// Drop tells what became of a table of Bigtable that the schema had once.
type Drop struct {
	At     tso.Timestamp // nobody has written to it at or after that, and its locks elsewhere were resolved
	Exists bool          `json:",omitempty"` // it has still to be deleted
}

// Drops is keyed by the name in Bigtable.
type Drops map[string]Drop

func (d Drops) encode() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // names, booleans and integers always marshal
	}
	return b
}

func decodeDrops(b []byte) (d Drops, err error) {
	err = json.Unmarshal(b, &d)
	return d, err
}

// without is d but for the tables that s has.
func (d Drops) without(s *model.Schema) Drops {
	out := maps.Clone(d)
	for _, t := range s.Tables {
		for _, name := range model.BigtableNames(t) {
			delete(out, name)
		}
	}
	return out
}

// left lists what has to be deleted.
func (d Drops) left() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if d[name].Exists {
			names = append(names, name)
		}
	}
	return names
}

// admits refuses a schema with a table that was dropped, as long as a snapshot from before may be
// read: the new table would show less than there was then.
func (m State) admits(s *model.Schema) error {
	for _, t := range s.Tables {
		for _, name := range model.BigtableNames(t) {
			switch d := m.Dropped[name]; {
			case d.Exists:
				return fmt.Errorf("percolator: table %q: %w: it is being dropped; finish that first (percolator schema apply --drop)", name, model.ErrSchemaMismatch)
			case d.At > m.Safepoint && name == t.Name:
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

// removed lists the tables of Bigtable that next has no use for, and those of them that are indexes
// of tables that stay.
func removed(old, next *model.Schema) (names, indexes []string) {
	keep := model.NewCatalog(next)
	for _, t := range old.Tables {
		_, stays := keep.UserTable(t.Name)
		for _, name := range model.BigtableNames(t) {
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

// CheckDrop is the ErrSchemaMismatch of what next asks for that neither CreateSchema nor a drop
// does, the ErrLocked of a hold, which keeps the snapshots of what would go, and the ErrImporting of
// an import that writes there: its fence would outlive the table.
func (m State) CheckDrop(next *model.Schema, now tso.Timestamp) error {
	for _, ch := range schemaChanges(m.Schema, next) {
		if err := ch.Err(); err != nil && !ch.Droppable() {
			return err
		}
	}
	names, _ := removed(m.Schema, next)
	for _, name := range names {
		if table, i := m.importOf(name); i.Phase != "" {
			return i.Refusal(table)
		}
	}
	if len(names) > 0 && m.HoldsAt(now) > 0 {
		return fmt.Errorf("percolator: %w: %d holds keep snapshots that show what is to be dropped; release them (percolator gc hold ls)", model.ErrLocked, m.HoldsAt(now))
	}
	return nil
}

// Droppable reports whether a drop makes the change.
func (ch SchemaChange) Droppable() bool { return ch.Kind == TableRemoved || ch.Kind == IndexRemoved }

// CloseIndexes has nobody read the indexes of tables that next keeps without them. It reports
// whether there are any.
func (w *Watcher) CloseIndexes(ctx context.Context, next *model.Schema) (closed bool, err error) {
	_, err = w.publish(ctx, func(m State) (State, bool) {
		_, indexes := removed(m.Schema, next)
		states, changed := IndexStates{}, false
		maps.Copy(states, m.Indexes)
		for _, name := range indexes {
			changed = changed || !states[name].Building
			states[name] = IndexState{Building: true}
		}
		closed = len(indexes) > 0
		m.Indexes = states
		return m, changed
	})
	return closed, err
}

// BeginDrop takes what next lacks away from programs, and returns the tables that are being dropped.
func (w *Watcher) BeginDrop(ctx context.Context, next *model.Schema) (dropping []string, err error) {
	m, err := w.publish(ctx, func(m State) (State, bool) {
		names, _ := removed(m.Schema, next)
		if len(names) == 0 {
			return m, false
		}
		gone, states := model.SetOf(names), IndexStates{}
		maps.Copy(states, m.Indexes)
		maps.DeleteFunc(states, func(name string, _ IndexState) bool { return gone[name] })
		m.Schema, m.Indexes = model.WithDropping(without(m.Schema, gone), append(m.Schema.Dropping, names...)), states
		return m, true
	})
	if err != nil {
		return nil, err
	}
	return m.Schema.Dropping, nil
}

// without is the schema less some tables of Bigtable.
func without(s *model.Schema, gone map[string]bool) *model.Schema {
	out := *s
	out.Tables = nil
	for _, t := range s.Tables {
		if gone[t.Name] {
			continue
		}
		t.Indexes = slices.DeleteFunc(slices.Clone(t.Indexes), func(ix model.Index) bool { return gone[model.IndexTable(t.Name, ix)] })
		out.Tables = append(out.Tables, t)
	}
	return &out
}

// EndDrop takes what is being dropped away from the engine. at was asked for after the drain, and
// every lock elsewhere whose primary is there was resolved since.
func (w *Watcher) EndDrop(ctx context.Context, dropping []string, at tso.Timestamp) error {
	ours := model.SetOf(dropping)
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
		m.Schema, m.Dropped = model.WithDropping(m.Schema, stay), drops
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
	names := m.Dropped.left()
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
// lifetime (I14): a table of that name may be created again by somebody who has found it deleted,
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
			return fmt.Errorf("percolator: deleting table %q: %w", name, model.WithContext(ctx, err))
		}
		return nil
	}, admin.Close, nil
}
