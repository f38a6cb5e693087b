package gc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Once the journal is turned off no client reads what it holds, and no cycle by the journal deletes
// it: the cycles by passes do. It is not relied on when the schema that disables it was stored
// before the drain of the cycle, and no other one was stored since. The schema is read again
// after each page, and before its rows are erased. So when the journal is turned on meanwhile,
//
//	entries   of that time are in rows that were not read
//	parked    is listed again by the sweep that builds it: a client that lists an observer just
//	          before its row is erased here says so in the row of the cell before the sweep begins
//	headers   stay as long as the sessions of their owners, who go on in their streams (J3)
//
// What was erased is gone, so a cycle that is broken off is continued by itself.

// emptyJournal deletes what a journal holds that was turned off before the cycle drained.
func (s *collecting) emptyJournal(ctx context.Context) error {
	if s.state.Unjournaled == 0 {
		return nil
	}
	for _, rows := range []model.Range{journal.NoHeaders(), journal.Expiries(tso.MaxTimestamp)} {
		if over, err := s.emptyRange(ctx, rows); over || err != nil {
			return err
		}
	}
	return s.forgetStreams(ctx)
}

// emptyRange deletes rows of the journal. over: nothing more is to be deleted.
func (s *collecting) emptyRange(ctx context.Context, rows model.Range) (over bool, err error) {
	size := store.PageSize{Rows: collectRows}
	for page, err := range s.e.Store.NewPass(model.JournalTable, rows, store.Anything(), size).Pages(ctx) {
		if errors.Is(err, model.ErrSchemaMismatch) || status.Code(err) == codes.PermissionDenied {
			return true, nil // there never was one, or this client has no right to it any more
		}
		if err != nil {
			return false, err
		}
		// Compute the deadline before reading the schema.
		deadline := time.Now().Add(s.e.Store.Timing.RequestLifetime)
		if off, err := s.unjournaled(ctx); err != nil || !off {
			return true, err
		}
		var gone []store.RowMutation
		for _, row := range page.Rows {
			mut := store.NewMutation(1)
			mut.EraseRow()
			gone = append(gone, store.RowMutation{Table: model.JournalTable, Row: row.Key, Mut: mut, Deadline: deadline})
		}
		if err := s.e.Sweeping.Do(ctx, gone); err != nil {
			return false, err
		}
		if err := s.rest(ctx, s.delay(len(gone))); err != nil {
			return false, err
		}
	}
	return false, nil
}

// unjournaled reports whether the schema is still the one that disabled the journal.
func (s *collecting) unjournaled(ctx context.Context) (bool, error) {
	m, err := s.e.Meta.Refresh(ctx)
	if err == nil {
		err = m.RefuseRepair()
	}
	return m.Schema != nil && m.Schema.DisableJournal && m.Version == s.state.Unjournaled, err
}
