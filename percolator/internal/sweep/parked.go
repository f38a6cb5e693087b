package sweep

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// parkedIn is the states of observers that are parked for a notification of the row, by cell.
func parkedIn(p model.Pending) (list []model.ObserverState) {
	for _, n := range p.Notified {
		for _, st := range p.Parked(n) {
			if !slices.ContainsFunc(list, func(o model.ObserverState) bool { return o.Cell == st.Cell && o.Observer == st.Observer }) {
				list = append(list, st)
			}
		}
	}
	return list
}

// listParked has the journal list what is parked in some rows. The process that ends it erases the
// journal's row last, maybe just before this one is written. So what is gone from the cell
// afterwards goes from the journal too.
func (s *sweeping) listParked(ctx context.Context, list []finding) error {
	var states []model.ObserverState
	keys := map[string][]string{}
	for _, f := range list {
		if states = append(states, f.parked...); len(f.parked) > 0 {
			keys[f.table] = append(keys[f.table], f.key)
		}
	}
	if err := s.mutateParked(ctx, states, func(st model.ObserverState) (string, *store.Mutation) { return journal.Parked(st) }); err != nil {
		return err
	}
	for table, keys := range keys {
		for chunk := range store.KeyChunks(keys) {
			err := s.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, store.Pending(), 0, func(row layout.Row) bool {
				still := parkedIn(layout.DecodePending(table, row))
				states = slices.DeleteFunc(states, func(st model.ObserverState) bool {
					return slices.ContainsFunc(still, func(o model.ObserverState) bool { return o.Cell == st.Cell && o.Observer == st.Observer })
				})
				return true
			})
			if err != nil {
				return err
			}
		}
	}
	return s.mutateParked(ctx, states, journal.Unparked)
}

func (s *sweeping) mutateParked(ctx context.Context, states []model.ObserverState, of func(model.ObserverState) (string, *store.Mutation)) error {
	if len(states) == 0 {
		return nil
	}
	deadline, err := s.e.Meta.CheckRepairing(ctx)
	if err != nil {
		return err
	}
	var muts []store.RowMutation
	for _, st := range states {
		row, mut := of(st)
		muts = append(muts, store.RowMutation{Table: model.JournalTable, Row: row, Mut: mut, Deadline: deadline})
	}
	return s.e.Sweeping.Do(ctx, muts)
}
