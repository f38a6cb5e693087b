package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/internal/gc"
	"github.com/gopercolator/percolator/percolator/model"
)

// The lease of a sweep and its position are one cell, as the collector's: the successor of a dead
// process continues at the position that was saved last.
const (
	stateRow    = meta.SweepRow
	stateColumn = "state"
)

// cell is the stored cell.
type cell struct {
	model.Sweep
	RowKey []byte // Sweep.Row, which JSON would damage
	First  place  // where the sweep began
	Last   bool   // it is in the rows before First
}

// place is a row of a table.
type place struct {
	Table string
	Row   []byte `json:",omitempty"`
}

func (c cell) encode() []byte {
	c.RowKey = []byte(c.Row)
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return b
}

func decodeCell(b []byte) (c cell, err error) {
	if err = json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("percolator: %w: the state of the sweep in %s cannot be read; erase row %q there to start afresh", model.ErrCorrupt, model.MetaTable, stateRow)
	}
	c.Row = string(c.RowKey)
	return c, nil
}

func readState(ctx context.Context, e *engine.Engine) (c cell, stored []byte, err error) {
	at := gc.LeaseCell{Store: e.Store, Row: stateRow, Column: stateColumn}
	if stored, err = at.Read(ctx); err == nil && stored != nil {
		c, err = decodeCell(stored)
	}
	return c, stored, err
}

// sweeping is a sweep under way, by the holder of the gc.
type sweeping struct {
	*Sweeper
	name  string // in the lease; a new one for each time that it is taken
	state cell
	cell  gc.LeaseCell

	found []finding // to be looked at again; only of a sweep that checks
	held  int       // rows passed over since the position was noted last
}

// acquire takes the lease if it is free. ErrLeased: another process has it.
func (w *Sweeper) acquire(ctx context.Context) (*sweeping, error) {
	now, err := w.e.Clock.Next(ctx)
	if err != nil {
		return nil, err
	}
	st, stored, err := readState(ctx, w.e)
	if err != nil {
		return nil, err
	}
	if st.Holder != "" && st.Expires > now {
		return nil, taken(st)
	}
	s := &sweeping{Sweeper: w, name: uuid.NewString(), state: st, cell: gc.LeaseCell{Store: w.e.Store, Row: stateRow, Column: stateColumn, TTL: w.cfg.Lease, Stored: stored}}
	return s, s.save(ctx)
}

func taken(st cell) error {
	return fmt.Errorf("percolator: %w: sweep %s, until %v", model.ErrLeased, st.Holder, st.Expires.Time())
}

// save writes the state and extends the lease, from now on and not from the answer.
func (s *sweeping) save(ctx context.Context) error {
	now, expires, err := s.cell.Extend(ctx, s.e.Clock.Next)
	if err != nil {
		return err
	}
	s.state.Holder, s.state.Updated, s.state.Expires = s.name, now, expires
	return s.store(ctx)
}

func (s *sweeping) store(ctx context.Context) error {
	replaced, err := s.cell.Replace(ctx, s.state.encode(), nil)
	if err != nil || replaced {
		return err
	}
	now, _, err := readState(ctx, s.e)
	if err != nil {
		return err
	}
	return taken(now)
}

// keep saves the state when a third of the lease has passed.
func (s *sweeping) keep(ctx context.Context) error {
	s.cfg.Progress(s.state.Sweep)
	if !s.cell.Due() {
		return nil
	}
	return s.save(ctx)
}

// rest waits and keeps the lease meanwhile.
func (s *sweeping) rest(ctx context.Context, whole time.Duration) error {
	return gc.WaitLeased(ctx, s.cfg.Lease, whole, s.keep)
}

// release gives the lease up. If that fails it expires.
func (s *sweeping) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
	defer cancel()
	s.state.Holder, s.state.Expires = "", 0
	if err := s.store(ctx); err != nil {
		s.e.Config.Logger.Debug("sweep: the lease was not given up, and expires", "err", err)
	}
}
