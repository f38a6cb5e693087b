package percolator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// metaIndexes is the column of the meta row with the state of indexes that were added to existing tables. It stands beside the
// schema and not in it, so that what a program declares stays equal to what is stored, and it changes with the schema's version.
const metaIndexes = "indexes"

// indexState says how far the entries of an index can be trusted. The zero value is an index that was created with its table: it has
// been complete at all times. A state only ever moves from building to ready, so an old reading of it errs on the safe side.
type indexState struct {
	Building bool          `json:",omitempty"` // cells that are older than the index may lack their entries
	Since    tso.Timestamp `json:",omitempty"` // snapshots below it may miss entries
}

// complete says whether every cell of a snapshot at ts has its entry.
func (st indexState) complete(ts tso.Timestamp) bool { return !st.Building && ts >= st.Since }

// indexStates is keyed by the Bigtable table of the index.
type indexStates map[string]indexState

func (s indexStates) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // names, booleans and integers always marshal
	}
	return b
}

func decodeIndexStates(b []byte) (s indexStates, err error) {
	err = json.Unmarshal(b, &s)
	return s, err
}

// after is the states once next has replaced the schema that s belongs to. An index is ready at once only if its table is new as
// well. That an existing table is empty now says nothing: until the new schema is in force everywhere, a client that does not
// know the index may commit rows without entries.
func (s indexStates) after(old, next *Schema) indexStates {
	out := indexStates{}
	maps.Copy(out, s)
	if old == nil {
		return out
	}
	had := newCatalog(old)
	for _, t := range next.Tables {
		before, ok := had.user(t.Name)
		if !ok {
			continue
		}
		for _, ix := range t.Indexes {
			if !slices.Contains(before.Indexes, ix) {
				out[ix.table(t.Name)] = indexState{Building: true}
			}
		}
	}
	return out
}

// indexState is what this client knows of an index.
func (w *metaWatcher) indexState(ix Index, table string) indexState {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last.indexes[ix.table(table)]
}

// findIndex looks an index up in the schema.
func (c *Client) findIndex(table, index string) (Index, error) {
	info, ok := c.catalog.Load().user(table)
	if !ok {
		return Index{}, unknownTable(table)
	}
	at := slices.IndexFunc(info.Indexes, func(ix Index) bool { return ix.Name == index })
	if at < 0 {
		return Index{}, fmt.Errorf("percolator: table %q: %w: it has no index %q", table, ErrSchemaMismatch, index)
	}
	return info.Indexes[at], nil
}

// findIndexNow is findIndex with its state, and asks the store before it says that there is none or that it is being built.
func (c *Client) findIndexNow(ctx context.Context, table, index string) (Index, indexState, error) {
	ix, err := c.findIndex(table, index)
	if err == nil {
		if st := c.meta.indexState(ix, table); !st.Building {
			return ix, st, nil
		}
	}
	if _, err := c.meta.refresh(ctx); err != nil {
		return Index{}, indexState{}, err
	}
	ix, err = c.findIndex(table, index)
	return ix, c.meta.indexState(ix, table), err
}

// completeIndex returns an index if a snapshot at ts can rely on it.
func (c *Client) completeIndex(ctx context.Context, ts tso.Timestamp, table, index string) (Index, error) {
	ix, err := c.findIndex(table, index)
	if err != nil {
		return ix, err
	}
	st := c.meta.indexState(ix, table)
	if st.Building {
		if ix, st, err = c.findIndexNow(ctx, table, index); err != nil {
			return ix, err
		}
	}
	switch {
	case st.Building:
		return ix, fmt.Errorf("percolator: table %q: %w: index %q is being built and lacks entries; BackfillIndex finishes it", table, ErrSchemaMismatch, index)
	case !st.complete(ts):
		return ix, tooOldForIndex(table, index, ts, st)
	}
	return ix, nil
}

func tooOldForIndex(table, index string, ts tso.Timestamp, st indexState) error {
	return fmt.Errorf("percolator: table %q: %w: index %q lacks entries at %d; it is complete since %d", table, ErrSnapshotTooOld, index, ts, st.Since)
}

// indexReady turns a building index into a ready one, for snapshots from since on, and returns its state as it is then: somebody
// else's may have come first. The request is conditional on the version, so that it cannot undo a change of the schema.
func (c *Client) indexReady(ctx context.Context, name string, since tso.Timestamp) (indexState, error) {
	pause := newBackoff(5*time.Millisecond, time.Second)
	for failed := 0; ; {
		m, err := c.meta.refresh(ctx)
		if err != nil {
			return indexState{}, err
		}
		if st := m.indexes[name]; !st.Building {
			return st, nil
		}
		next := indexStates{}
		maps.Copy(next, m.indexes)
		next[name] = indexState{Since: since}
		mut := bigtable.NewMutation()
		mut.Set(metaFamily, metaIndexes, metaTimestamp, next.encode())
		mut.Set(metaFamily, metaVersion, metaTimestamp, binary.BigEndian.AppendUint64(nil, m.version+1))
		same := bigtable.ChainFilters(oneColumn(metaFamily, metaVersion), exactValue(binary.BigEndian.AppendUint64(nil, m.version)))
		_, err = c.store.checkAndMutate(ctx, metaTable, metaRow, same, mut, nil)
		if err == nil {
			continue // applied, or overtaken by another change: see which
		}
		if failed++; !maybeApplied(err) || errors.Is(err, ErrClosed) || failed == transientFailures {
			return indexState{}, err
		}
		if perr := pause.wait(ctx); perr != nil {
			return indexState{}, fmt.Errorf("%w: %w", err, perr)
		}
	}
}
