package gc

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// parkedVersions is how many notifications of a column are looked at; with as many, all is left.
const parkedVersions = 64

// forgetParked erases from the journal what is listed as parked and cannot be: the table is gone,
// or the column has no notification up to that which it was parked for. Those at or below the
// watermark alone are judged, since none can come there any more. A sign of parking that is left in
// the row of the cell means nothing then (I19), and goes first.
func (s *collecting) forgetParked(ctx context.Context) error {
	for list, err := range journal.ListParked(ctx, s.e.Store) {
		if err != nil {
			return err
		}
		byTable := map[string][]model.ObserverState{}
		for _, st := range list {
			if st.Through <= s.state.Safepoint {
				byTable[st.Cell.Table] = append(byTable[st.Cell.Table], st)
			}
		}
		for table, states := range byTable {
			if err := s.forgetParkedOf(ctx, table, states); err != nil {
				return err
			}
		}
		if err := s.keep(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *collecting) forgetParkedOf(ctx context.Context, table string, states []model.ObserverState) error {
	_, known := s.e.Meta.Catalog.Load().Tables[table]
	notified := map[string][]model.Notification{}
	if known {
		keys := ordered.Map(states, func(st model.ObserverState) string { return st.Cell.Row })
		slices.Sort(keys)
		for chunk := range store.KeyChunks(slices.Compact(keys)) {
			if err := s.rest(ctx, s.delay(len(chunk))); err != nil {
				return err
			}
			err := s.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, store.PendingUpTo(s.state.Safepoint, parkedVersions), 0, func(row layout.Row) bool {
				notified[row.Key] = layout.DecodePending(table, row).Notified
				return true
			})
			if err != nil {
				return err
			}
		}
	}
	for _, st := range states {
		if mayBeParked(st, notified[st.Cell.Row]) {
			continue
		}
		if known {
			mut := store.NewMutation(1)
			mut.ClearNotify(layout.StateColumn(st), st.Through)
			if err := s.mutate(ctx, table, st.Cell.Row, mut); err != nil {
				return err
			}
		}
		row, mut := journal.Unparked(st)
		if err := s.mutate(ctx, model.JournalTable, row, mut); err != nil {
			return err
		}
	}
	return nil
}

// mayBeParked reports whether an observer may have a notification to be parked for among those of
// the row.
func mayBeParked(st model.ObserverState, row []model.Notification) bool {
	n := 0
	for _, x := range row {
		if x.Cell != st.Cell {
			continue
		}
		if n++; x.Timestamp <= st.Through || n == parkedVersions {
			return true
		}
	}
	return false
}

// mutate repeats an idempotent mutation while its outcome is ambiguous, unless a repair is
// unfinished.
func (g *Collector) mutate(ctx context.Context, table, row string, mut *store.Mutation) error {
	_, err := g.e.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
		return true, g.e.Store.Mutate(ctx, table, row, mut)
	})
	return err
}
