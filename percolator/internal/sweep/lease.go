package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/internal/gc"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
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
	return layout.JSON(c)
}

func decodeCell(b []byte) (c cell, err error) {
	if err = json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("percolator: %w: the state of the sweep in %s cannot be read; erase row %q there to start afresh", model.ErrCorrupt, model.MetaTable, stateRow)
	}
	c.Row = string(c.RowKey)
	return c, nil
}

var leased = gc.LeasedState[cell]{
	What: "sweep", Row: stateRow, Column: stateColumn, Encode: cell.encode, Decode: decodeCell,
	Lease: func(c *cell) (holder *string, updated, expires *tso.Timestamp) {
		return &c.Holder, &c.Updated, &c.Expires
	},
}

// sweeping is a running sweep, by the holder of the lease.
type sweeping struct {
	*Sweeper
	state cell
	lease gc.Held[cell]

	found []finding // to be looked at again; only of a sweep that checks
	held  int       // rows passed over since the position was noted last
}

// acquire takes the lease if it is free. ErrLeased: another process has it.
func (w *Sweeper) acquire(ctx context.Context) (s *sweeping, err error) {
	s = &sweeping{Sweeper: w}
	s.lease, err = leased.Acquire(ctx, w.e, w.cfg.Lease, &s.state)
	return s, err
}

// save writes the state and extends the lease.
func (s *sweeping) save(ctx context.Context) error { return s.lease.Save(ctx, nil) }

// keep saves the state when a third of the lease has passed.
func (s *sweeping) keep(ctx context.Context) error {
	s.cfg.Progress(s.state.Sweep)
	return s.lease.Keep(ctx)
}

// rest waits and keeps the lease meanwhile.
func (s *sweeping) rest(ctx context.Context, whole time.Duration) error {
	return gc.WaitLeased(ctx, s.cfg.Lease, whole, s.keep)
}

func (s *sweeping) release(ctx context.Context) { s.lease.Release(ctx, s.e.Config.Logger) }
