package model

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// RepairPhase is a step of a repair.
type RepairPhase string

// The phases of a repair, in order.
const (
	RepairDrain   RepairPhase = "drain"   // the fence is stored
	RepairResolve RepairPhase = "resolve" // it is in force
	RepairRemove  RepairPhase = "remove"  // every lock is resolved
	RepairFinish  RepairPhase = "finish"  // nothing above Repair.To is left
)

// RepairOptions says how a repair is to run.
type RepairOptions struct {
	To     tso.Timestamp // S: what committed above it goes
	DryRun bool          // only count; the instance is in use meanwhile, or fenced already
	// WithoutHold: also if no hold shows that collection has left alone what the repair needs. Then
	// nothing below S is readable afterwards.
	WithoutHold bool
	// DespiteFindings lifts the fence although the audit has found something.
	DespiteFindings bool

	// Raise raises the oracle's high-water mark to at least above; nil: ErrOracleBehind if that is
	// needed.
	Raise   func(ctx context.Context, above tso.Timestamp) error
	Waiting func(time.Duration) // called before the drain; may be nil
	// Called after every page, concurrently; may be nil.
	Progress func(RepairReport)
}

// RepairReport is what a repair has done, or found to do; of an interrupted one, since it was
// continued.
type RepairReport struct {
	Phase               RepairPhase   // that it has reached
	To, Greatest, Floor tso.Timestamp // no cell is above Greatest, no snapshot at or below Floor
	Until               tso.Timestamp // snapshots between To and Until are refused
	Rows                int64         // that were read

	RolledForward, RolledBack                     int64 // locks
	Records, Markers, Data, Notifications, States int64 // removed cells; states are of observers
	Renotified, WeakRenotified                    int64 // notifications that are there again

	Holds, Positions int      // removed from percolator_meta
	Building         []string // indexes that BackfillIndex has to build
	Weak             []string // TABLE.COLUMN of weak columns with lost notifications

	Unfinished bool // after an error: the instance stays closed until a repair has ended

	Findings []RepairFinding // at most 1000
	Found    int
	Audit    []AuditFinding // at most 1000
	Audited  int            // what the audit has found, all of it
}

// RepairFinding is a lock that the repair could not simply decide by its primary. Values are left
// out.
type RepairFinding struct {
	Cell   Cell
	Start  tso.Timestamp // of the transaction
	Commit tso.Timestamp // where it counts as committed; 0: it was rolled back, or left alone
	Text   string
}
