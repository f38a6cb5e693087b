package meta

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// ColumnIndexes is the column of the meta row with the states of indexes that were added to
// existing tables. The states stand beside the schema, not in it, so that what a program declares
// stays equal to what is stored. They change with the schema's version.
const ColumnIndexes = "indexes"

// Complete reports whether every cell of a snapshot at ts has its entry.
func (st IndexState) Complete(ts tso.Timestamp) bool { return !st.Building && ts >= st.Since }

// IndexStates is keyed by the Bigtable table of the index.
type IndexStates map[string]IndexState

// Encode returns the bytes of ColumnIndexes.
func (s IndexStates) Encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // names, booleans and integers always marshal
	}
	return b
}

func decodeIndexStates(b []byte) (s IndexStates, err error) {
	err = json.Unmarshal(b, &s)
	return s, err
}

// after is the states once next has replaced old, the schema of s. An index is ready at once only
// if its table is new as well. That an existing table is empty now says nothing: until the new
// schema is in force everywhere, a client that does not know the index may commit rows without
// entries.
func (s IndexStates) after(old, next *model.Schema) IndexStates {
	out := IndexStates{}
	maps.Copy(out, s)
	if old == nil {
		return out
	}
	had := model.NewCatalog(old)
	for _, t := range next.Tables {
		before, ok := had.UserTable(t.Name)
		if !ok {
			continue
		}
		for _, ix := range t.Indexes {
			if !slices.Contains(before.Indexes, ix) {
				out[model.IndexTable(t.Name, ix)] = IndexState{Building: true}
			}
		}
	}
	return out
}

// IndexState returns what this client knows of an index.
func (w *Watcher) IndexState(ix model.Index, table string) IndexState {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last.Indexes[model.IndexTable(table, ix)]
}

// FindIndex returns an index of the schema as this client knows it; ErrSchemaMismatch if there is
// none.
func (w *Watcher) FindIndex(table, index string) (model.Index, error) {
	info, ok := w.Catalog.Load().UserTable(table)
	if !ok {
		return model.Index{}, w.Catalog.Load().UnknownTable(table)
	}
	at := slices.IndexFunc(info.Indexes, func(ix model.Index) bool { return ix.Name == index })
	if at < 0 {
		return model.Index{}, info.UnknownIndex(index)
	}
	return info.Indexes[at], nil
}

// FindIndexNow is FindIndex with the state. It reads the stored schema before it says that there is
// no such index, or that the index is building.
func (w *Watcher) FindIndexNow(ctx context.Context, table, index string) (model.Index, IndexState, error) {
	ix, err := w.FindIndex(table, index)
	if err == nil {
		if st := w.IndexState(ix, table); !st.Building {
			return ix, st, nil
		}
	}
	if _, err := w.Refresh(ctx); err != nil {
		return model.Index{}, IndexState{}, err
	}
	ix, err = w.FindIndex(table, index)
	return ix, w.IndexState(ix, table), err
}

// IndexReady turns a building index into a ready one for snapshots from since on, and returns its
// state afterwards: another client's may have come first.
func (w *Watcher) IndexReady(ctx context.Context, name string, since tso.Timestamp) (IndexState, error) {
	m, err := w.publish(ctx, func(m State) (State, bool) {
		if !m.Indexes[name].Building {
			return m, false
		}
		m.Indexes = maps.Clone(m.Indexes)
		m.Indexes[name] = IndexState{Since: since}
		return m, true
	})
	if err != nil {
		return IndexState{}, err
	}
	return m.Indexes[name], nil
}

// IncompleteIndexes lists the indexes, as TABLE.INDEX, that were not complete at ts: two rows may
// hold one value of a unique one.
func (w *Watcher) IncompleteIndexes(ctx context.Context, ts tso.Timestamp) (names []string, err error) {
	m, err := w.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range w.Catalog.Load().Schema.Tables {
		for _, ix := range t.Indexes {
			if name := model.IndexTable(t.Name, ix); !m.Indexes[name].Complete(ts) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// ReopenIndexes marks as building the indexes that became ready after ts, and returns their names.
func (w *Watcher) ReopenIndexes(ctx context.Context, ts tso.Timestamp) (names []string, err error) {
	_, err = w.publish(ctx, func(m State) (State, bool) {
		reopened, changed := IndexStates{}, false
		names = nil
		for name, st := range m.Indexes {
			if st.Since > ts {
				st, changed = IndexState{Building: true}, true
			}
			if reopened[name] = st; st.Building {
				names = append(names, name)
			}
		}
		m.Indexes = reopened
		return m, changed
	})
	slices.Sort(names)
	return names, err
}
