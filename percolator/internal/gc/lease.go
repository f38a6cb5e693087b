package gc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The collector's lease and its position are one cell: the successor of a dead collector continues
// at the position saved last.
const (
	collectorRow   = meta.CollectorRow
	collectorState = "state"
)

// collectorCell is the stored cell.
type collectorCell struct {
	model.Collection
	RowKey []byte // Collection.Row, which JSON would damage
	// After Collection.Table; absent: not started.
	Tables map[string]tablePosition `json:",omitempty"`
	// The journal led to the locks, and the shares are to erase.
	ByJournal bool `json:",omitempty"`
	// The shares to resolve were stored with the phase.
	Offered bool `json:",omitempty"`

	// The schema's version before the drain, if it had no journal.
	Unjournaled uint64 `json:",omitempty"`
}

func (st collectorCell) encode() []byte {
	st.RowKey = []byte(st.Row)
	return layout.JSON(st)
}

func decodeCollectorCell(b []byte) (st collectorCell, err error) {
	if err = json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("percolator: %w: the collector's state in %s cannot be read; erase row %q there to start afresh", model.ErrCorrupt, model.MetaTable, collectorRow)
	}
	st.Row = string(st.RowKey)
	return st, nil
}

var collectorLease = LeasedState[collectorCell]{
	What: "collector", Row: collectorRow, Column: collectorState, Encode: collectorCell.encode, Decode: decodeCollectorCell,
	Lease: func(st *collectorCell) (holder *string, updated, expires *tso.Timestamp) {
		return &st.Holder, &st.Updated, &st.Expires
	},
}

// collecting is a cycle that runs, by the holder of the lease.
type collecting struct {
	*Collector
	state  collectorCell
	tables map[string]tablePosition // of all tables in this phase
	lease  Held[collectorCell]
}

// acquire takes the lease if it is free. ErrLeased: another collector has it, and s its
// state.
func (g *Collector) acquire(ctx context.Context) (s *collecting, err error) {
	s = &collecting{Collector: g}
	s.lease, err = collectorLease.Acquire(ctx, g.e, g.cfg.Lease, &s.state)
	return s, err
}

// leaseCell is a cell with a lease of this collector's length.
func leaseCell[T any](g *Collector, column string, stored []byte, decode func([]byte) (T, error)) LeaseCell[T] {
	return NewLeaseCell(store.MetaCell{Store: g.e.Store, Row: collectorRow, Column: column}, g.cfg.Lease, stored, decode)
}

// save writes the state and extends the lease.
func (s *collecting) save(ctx context.Context) error { return s.lease.Save(ctx, nil) }

// keep saves the state when a third of the lease has passed.
func (s *collecting) keep(ctx context.Context) error {
	s.cfg.Progress(s.state.Collection)
	return s.lease.Keep(ctx)
}

// enter begins a phase; shares, if not nil, take the place of those before. A phase that was not
// stored has not started, nor were its shares offered: what gives the lease up would otherwise
// store it without them.
func (s *collecting) enter(ctx context.Context, p model.CollectionPhase, shares map[string][]byte) error {
	before := s.state
	s.state.Phase, s.state.Table, s.state.Row, s.state.Page, s.state.Tables = p, "", "", "", nil
	s.state.Offered = p == model.CollectionResolve && shares != nil
	err := s.lease.Save(ctx, func(mut *store.Mutation) { putShares(mut, shares) })
	if err != nil {
		s.state = before
	}
	s.cfg.Progress(s.state.Collection)
	return err
}

func (s *collecting) release(ctx context.Context) { s.lease.Release(ctx, s.e.Config.Logger) }
