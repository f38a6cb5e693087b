package admin

import (
	"context"

	"github.com/gopercolator/percolator/internal/audit"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/internal/repair"
)

// RepairOptions says how a repair is to run:
//
//	To              tso.Timestamp // what committed above it goes
//	DryRun          bool          // only count; the instance may be in use meanwhile
//	WithoutHold     bool          // see ErrNotHeld
//	DespiteFindings bool          // see ErrRepairFindings
//
//	Raise    func(ctx context.Context, above tso.Timestamp) error
//	Waiting  func(time.Duration)
//	Progress func(phase RepairPhase, r Report)
//
// Raise, if not nil, raises the oracle's mark (ErrOracleBehind); Waiting is told how long the drain
// is, and Progress is called after every page, concurrently.
type RepairOptions = repair.Options

// RepairPhase is a step of a repair.
type RepairPhase = meta.RepairPhase

// RepairReport is what a repair has done, or would do:
//
//	To, Greatest, Floor, Until tso.Timestamp
//	Rows                       int64 // that were read
//
//	RolledForward, RolledBack                    int64 // locks
//	Records, Markers, Data, Notifications, States int64 // removed cells; states are of observers
//	Renotified, WeakRenotified                   int64 // notifications that are there again
//
//	Holds, Positions int      // removed from percolator_meta
//	Building         []string // indexes that BackfillIndex has to build
//	Weak             []string // TABLE.COLUMN, where erased weak notifications left no trace
//
//	Unfinished bool // after an error: the instance stays closed until a repair has ended
//
//	Findings []Finding // locks that their primaries did not decide, at most 1000
//	Found    int
//	Audit    []audit.Finding // at most 1000
//	Audited  int             // what the audit has found, all of it
//
// No cell was newer than Greatest. Snapshots at or below Floor are refused, and so are those above
// To up to Until.
type RepairReport = repair.Report

// RepairFinding is a lock that the repair could not simply decide by its primary:
//
//	Cell   model.Cell
//	Start  tso.Timestamp // of the transaction
//	Commit tso.Timestamp // where it counts as committed; 0: it was rolled back, or left alone
//	Text   string
type RepairFinding = repair.Finding

// AuditFinding is something that must not be in the tables. String tells all of it:
//
//	Rule               Rule
//	Table, Row, Column string
//	Timestamps         []tso.Timestamp // those that Text speaks of
//	Text               string
type AuditFinding = audit.Finding

// Repair makes the instance what it was at opts.To, of which every row has been cut off later, each
// at a time of its own: native backups, or a replica that took over (docs/DISASTER.md). It returns
// when all clients can use the instance again. Interrupted, the same call resumes. Memory: 100,000
// locks, a page of each of four tables, 100 MB for the audit.
//
// Errors: ErrSnapshotTooOld if collection has passed opts.To, or an earlier repair has removed it;
// ErrInvalidArgument if it lies in the oracle's future; ErrRestoring, and ErrRepairing for a repair
// to another timestamp; ErrNotHeld, ErrOracleBehind, ErrRepairFindings; ErrConflict if another
// else continues it; those of the store.
func (a *Admin) Repair(ctx context.Context, opts RepairOptions) (RepairReport, error) {
	return repair.Run(ctx, a.e, opts)
}
