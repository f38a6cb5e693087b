package admin

import (
	"context"

	"github.com/gopercolator/percolator/percolator/internal/sweep"
	"github.com/gopercolator/percolator/percolator/model"
)

// Sweeper searches all tables for work that the journal does not lead to (docs/PROTOCOL.md, "The
// journal"), and adds it to the journal. Its methods may be called concurrently; there may be many
// sweepers of one instance.
type Sweeper struct{ s *sweep.Sweeper }

// NewSweeper returns a sweeper of the client's instance. Workers (package observers) run one by
// themselves. ErrInvalidArgument: cfg.
func (a *Admin) NewSweeper(cfg model.SweepConfig) (*Sweeper, error) {
	s, err := sweep.New(a.e, cfg)
	return &Sweeper{s}, err
}

// Run sweeps when it is due until ctx ends, and then returns nil; ErrClosed when the client is
// closed.
func (s *Sweeper) Run(ctx context.Context) error { return s.s.Run(ctx) }

// Sweep sweeps now and returns what it did. Of a journal that is building it first waits for the
// drain, 80 s with the default Timing, and at the end the journal is ready. Errors:
// ErrSchemaMismatch if the schema disables the journal; ErrLeased if another process sweeps;
// ErrConflict if the journal was turned off meanwhile; ErrCorrupt for an entry that cannot be
// decoded; those of the store. The next sweep continues one that failed, in this or another
// process.
func (s *Sweeper) Sweep(ctx context.Context) (model.Sweep, error) { return s.s.Sweep(ctx) }

// Sweep reads how far the last sweep has come, in any process.
func (a *Admin) Sweep(ctx context.Context) (model.Sweep, error) { return sweep.Read(ctx, a.e) }
