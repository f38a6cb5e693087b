package gc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
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

	// The schema's version before the drain, if it had no journal.
	Unjournaled uint64 `json:",omitempty"`
}

func (st collectorCell) encode() []byte {
	st.RowKey = []byte(st.Row)
	b, err := json.Marshal(st)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return b
}

func decodeCollectorCell(b []byte) (st collectorCell, err error) {
	if err = json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("percolator: %w: the collector's state in %s cannot be read; erase row %q there to start afresh", model.ErrCorrupt, model.MetaTable, collectorRow)
	}
	st.Row = string(st.RowKey)
	return st, nil
}

func readCollectorState(ctx context.Context, e *engine.Engine) (st collectorCell, stored []byte, err error) {
	cell := LeaseCell{Store: e.Store, Row: collectorRow, Column: collectorState}
	if stored, err = cell.Read(ctx); err == nil && stored != nil {
		st, err = decodeCollectorCell(stored)
	}
	return st, stored, err
}

// collecting is a cycle that runs, by the holder of the gc.
type collecting struct {
	*Collector
	name   string // in the lease; a new one for each time that it is taken
	state  collectorCell
	tables map[string]tablePosition // of all tables in this phase
	cell   LeaseCell
}

// acquire takes the lease if it is free. ErrLeased: another collector has it.
func (g *Collector) acquire(ctx context.Context) (*collecting, error) {
	now, err := g.e.Clock.Next(ctx)
	if err != nil {
		return nil, err
	}
	st, stored, err := readCollectorState(ctx, g.e)
	if err != nil {
		return nil, err
	}
	if st.Holder != "" && st.Expires > now {
		return nil, &leased{st.Collection}
	}
	s := &collecting{Collector: g, name: uuid.NewString(), state: st, cell: g.cell(collectorState, stored)}
	return s, s.save(ctx)
}

// cell is a cell with a lease of this collector's length.
func (g *Collector) cell(column string, stored []byte) LeaseCell {
	return LeaseCell{Store: g.e.Store, Row: collectorRow, Column: column, TTL: g.cfg.Lease, Stored: stored}
}

// leased is ErrLeased with the cycle of the collector that has the lease.
type leased struct{ cycle model.Collection }

func (e *leased) Error() string {
	return fmt.Sprintf("percolator: %v: collector %s, until %v", model.ErrLeased, e.cycle.Holder, e.cycle.Expires.Time())
}

func (e *leased) Unwrap() error { return model.ErrLeased }

// save writes the state and extends the lease, from now on and not from the answer.
func (s *collecting) save(ctx context.Context) error { return s.saveWith(ctx, nil) }

func (s *collecting) saveWith(ctx context.Context, shares map[string][]byte) error {
	now, expires, err := s.cell.Extend(ctx, s.e.Clock.Next)
	if err != nil {
		return err
	}
	s.state.Holder, s.state.Updated, s.state.Expires = s.name, now, expires
	return s.store(ctx, shares)
}

// store writes the state, and shares in the same request if not nil (putShares).
func (s *collecting) store(ctx context.Context, shares map[string][]byte) error {
	replaced, err := s.cell.Replace(ctx, s.state.encode(), func(mut *store.Mutation) { putShares(mut, shares) })
	if err != nil || replaced {
		return err
	}
	now, _, err := readCollectorState(ctx, s.e)
	if err != nil {
		return err
	}
	return &leased{now.Collection}
}

// keep saves the state when a third of the lease has passed.
func (s *collecting) keep(ctx context.Context) error {
	s.cfg.Progress(s.state.Collection)
	if !s.cell.Due() {
		return nil
	}
	return s.save(ctx)
}

// enter begins a phase; shares, if not nil, take the place of those before. A phase that was not
// stored has not started: what gives the lease up would otherwise store it without its shares.
func (s *collecting) enter(ctx context.Context, p model.CollectionPhase, shares map[string][]byte) error {
	before := s.state
	s.state.Phase, s.state.Table, s.state.Row, s.state.Page, s.state.Tables = p, "", "", "", nil
	err := s.saveWith(ctx, shares)
	if err != nil {
		s.state = before
	}
	s.cfg.Progress(s.state.Collection)
	return err
}

// release gives the lease up. If that fails it expires.
func (s *collecting) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
	defer cancel()
	s.state.Holder, s.state.Expires = "", 0
	if err := s.store(ctx, nil); err != nil {
		s.e.Config.Logger.Debug("collection: the lease was not given up, and expires", "err", err)
	}
}
