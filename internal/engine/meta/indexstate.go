package meta

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ColumnIndexes is the column of the meta row with the states of indexes that were added to
// existing tables. The states stand beside the schema, not in it, so that what a program declares
// stays equal to what is stored. They change with the schema's version.
const ColumnIndexes = "indexes"

// IndexStates is keyed by the Bigtable table of the index.
type IndexStates map[string]model.IndexState

// Encode returns the bytes of ColumnIndexes.
func (s IndexStates) Encode() []byte {
	return layout.JSON(s)
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
	had := catalog.New(old)
	for _, t := range next.Tables {
		before, ok := had.UserTable(t.Name)
		if !ok {
			continue
		}
		for _, ix := range t.Indexes {
			if !slices.Contains(before.Indexes, ix) {
				out[catalog.IndexTable(t.Name, ix)] = model.IndexState{Building: true}
			}
		}
	}
	return out
}

// IndexState returns what this client knows of an index.
func (w *Watcher) IndexState(ix model.Index, table string) model.IndexState {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last.Indexes[catalog.IndexTable(table, ix)]
}

// FoundIndex is an index as the meta row has it at one moment.
type FoundIndex struct {
	model.Index
	Incarnation // of its table
	Life        Life
}

// FindIndex returns an index of the schema as this client knows it; ErrSchemaMismatch if there is
// none.
func (w *Watcher) FindIndex(table, index string) (FoundIndex, error) {
	w.mu.RLock()
	m, known := w.last, w.Catalog.Load()
	w.mu.RUnlock()
	info, ok := known.UserTable(table)
	if !ok {
		return FoundIndex{}, known.UnknownTable(table)
	}
	at := slices.IndexFunc(info.Indexes, func(ix model.Index) bool { return ix.Name == index })
	if at < 0 {
		return FoundIndex{}, info.UnknownIndex(index)
	}
	ix := info.Indexes[at]
	return FoundIndex{ix, m.Incarnation(catalog.IndexTable(table, ix)), m.LifeOfIndex(table, ix)}, nil
}

// FindIndexNow is FindIndex by knowledge as fresh as reads demand. It reads the stored schema
// before it says that there is no such index, or that the index is building. Errors: also those of
// Known.
func (w *Watcher) FindIndexNow(ctx context.Context, table, index string) (FoundIndex, error) {
	if _, err := w.Known(ctx); err != nil {
		return FoundIndex{}, err
	}
	found, err := w.FindIndex(table, index)
	if err == nil && !found.State.Building {
		return found, nil
	}
	if _, err := w.Refresh(ctx); err != nil {
		return FoundIndex{}, err
	}
	return w.FindIndex(table, index)
}

// IsBuilding reports whether an index is building, to who builds it since life. Errors: that of
// another life, and ErrImporting beside an import, which decides once whose entries it writes.
func (m State) IsBuilding(table string, ix model.Index, life Life) (bool, error) {
	now, i := m.LifeOfIndex(table, ix), m.Imports[table]
	switch {
	case now.Drop == life.Drop && !m.Indexes[catalog.IndexTable(table, ix)].Building:
		return false, nil
	case now.Drop == life.Drop && i.Phase != "":
		return true, i.Refusal(table)
	}
	return true, life.Became(now, table)
}

// IndexReady turns an index that was built since life into a ready one for snapshots from since on,
// and returns its state afterwards: another client's may have come first. Errors: those of
// IsBuilding.
//
// The index is not ready later than a request's lifetime after no fence of an import was there, so
// an import that looks a drain after its fence sees whether it is.
func (w *Watcher) IndexReady(ctx context.Context, table string, ix model.Index, life Life, since tso.Timestamp) (model.IndexState, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Store.Timing.RequestLifetime)
	defer cancel()
	name := catalog.IndexTable(table, ix)
	var refused error
	m, err := w.publish(ctx, func(m State) (State, bool) {
		var building bool
		if building, refused = m.IsBuilding(table, ix, life); !building || refused != nil {
			return m, false
		}
		m.Indexes = maps.Clone(m.Indexes)
		m.Indexes[name] = model.IndexState{Since: since}
		return m, true
	})
	if err = errors.Join(err, refused); err != nil {
		return model.IndexState{}, err
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
	for _, t := range m.Schema.Tables {
		for _, ix := range t.Indexes {
			if name := catalog.IndexTable(t.Name, ix); !m.Indexes[name].Complete(ts) {
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
				st, changed = model.IndexState{Building: true}, true
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
