package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
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
		return model.Index{}, model.UnknownTable(table)
	}
	at := slices.IndexFunc(info.Indexes, func(ix model.Index) bool { return ix.Name == index })
	if at < 0 {
		return model.Index{}, fmt.Errorf("percolator: table %q: %w: it has no index %q", table, model.ErrSchemaMismatch, index)
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
// state afterwards: another client's may have come first. The request is conditional on the
// version, so it cannot undo a change of the schema.
func (w *Watcher) IndexReady(ctx context.Context, name string, since tso.Timestamp) (IndexState, error) {
	pause := retry.New(5*time.Millisecond, time.Second)
	for failed := 0; ; {
		m, err := w.Refresh(ctx)
		if err != nil {
			return IndexState{}, err
		}
		if st := m.Indexes[name]; !st.Building {
			return st, nil
		}
		next := IndexStates{}
		maps.Copy(next, m.Indexes)
		next[name] = IndexState{Since: since}
		_, err = m.replace(ctx, w.Store, nil, next)
		if err == nil {
			continue // applied, or overtaken by another change: see which
		}
		if failed++; !model.Ambiguous(err) || errors.Is(err, model.ErrClosed) || failed == retry.TransientFailures {
			return IndexState{}, err
		}
		if perr := pause.Wait(ctx); perr != nil {
			return IndexState{}, fmt.Errorf("%w: %w", err, perr)
		}
	}
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
	for range MaxTries {
		m, err := w.Refresh(ctx)
		if err != nil {
			return nil, err
		}
		next, changed := IndexStates{}, false
		for name, st := range m.Indexes {
			if st.Since > ts {
				st, changed = IndexState{Building: true}, true
			}
			if next[name] = st; st.Building {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if !changed {
			return names, nil
		}
		names = nil
		if _, err := m.replace(ctx, w.Store, nil, next); err != nil && !model.Ambiguous(err) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("percolator: %w: the states of indexes were changed by others %d times", model.ErrConflict, MaxTries)
}
