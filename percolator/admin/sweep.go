package admin

import (
	"context"

	"github.com/gopercolator/percolator/percolator/internal/sweep"
)

// Sweeper passes over all tables for whatever the journal does not lead to (docs/PROTOCOL.md, "The
// journal"), and sees that from there on it does. Its methods may be called concurrently; there may
// be many sweepers of one instance.
//
// Run(ctx) sweeps when it is due until ctx ends, and then returns nil; ErrClosed when the client is
// closed. Sweep(ctx) sweeps now and returns what it did. Of a journal that is building it first
// waits for the drain, 80 s with the default Timing, and at the end the journal is ready. Errors:
// ErrSchemaMismatch if the schema disables the journal; ErrLocked if another sweep is at work;
// ErrConflict if the journal was turned off meanwhile; ErrCorrupt for an entry that cannot be
// decoded; those of the store. The next sweep continues one that failed, in this or another
// process.
type Sweeper = sweep.Sweeper

// SweepConfig configures sweeps. The zero value is useful:
//
//	Interval      time.Duration // between the beginnings of sweeps; 0: 7 days; at least 1 s
//	Lease         time.Duration // a dead process blocks others for it; 0: 1 min; at least 1 s
//	RowsPerSecond int           // at most so many are read; 0: 5,000
//	Progress      func(Sweep)   // if set, the goroutine that sweeps calls it after every step
//	Wait          func(context.Context, time.Duration) error // for the drain; nil: by the clock
//
// A journal that is building is swept at once.
type SweepConfig = sweep.Config

// Sweep tells how far a sweep has come and what it did:
//
//	Phase    SweepPhase    // "" when there never was a sweep
//	Building string        // not "": it builds the journal, else it checks it
//	Started  tso.Timestamp // oracle's time
//	Updated  tso.Timestamp // oracle's time when it was last saved
//	Table    string        // where it is
//	Row      string        // rows of Table before this one are done, back to where it began
//	Holder   string        // the process at work; "": none
//	Expires  tso.Timestamp // when its lease ends
//
//	Rows          int64 // read
//	Announced     int64 // rows to which the journal leads now
//	Locks         int64 // resolved
//	Notifications int64 // dispatched
//	Corrupt       int64 // cells that cannot be decoded, left as they are
//
//	Missed  SweepMissed // by a journal that was ready
//	Orphans int64       // rows with locks or markers of transactions that never committed
//
// Orphans are no defect: a process that dies between its prewrites and its entry leaves them.
type Sweep = sweep.Sweep

// SweepMissed counts what is older than an hour, and what the journal should have led to. Anything
// but 0 is a defect; Sum() adds it up:
//
//	Locks         int64 // of transactions that committed
//	Notifications int64
//	Garbage       int64 // rows with garbage that a cycle of the collector has left
type SweepMissed = sweep.SweepMissed

// SweepPhase is a step of a sweep.
type SweepPhase = sweep.SweepPhase

// The phases of a sweep, in order.
const (
	SweepDrain = sweep.PhaseDrain // only of one that builds the journal
	SweepRows  = sweep.PhaseRows
	SweepDone  = sweep.PhaseDone
)

// NewSweeper returns a sweeper of the client's instance. Workers (package observers) run one by
// themselves. ErrInvalidArgument: cfg.
func (a *Admin) NewSweeper(cfg SweepConfig) (*Sweeper, error) { return sweep.New(a.e, cfg) }

// Sweep reads how far the last sweep has come, in any process.
func (a *Admin) Sweep(ctx context.Context) (Sweep, error) { return sweep.Read(ctx, a.e) }
