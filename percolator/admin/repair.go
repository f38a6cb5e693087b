package admin

import (
	"context"

	"github.com/gopercolator/percolator/percolator/internal/repair"
	"github.com/gopercolator/percolator/percolator/model"
)

// Repair brings the instance to what it was at opts.To. It is for tables whose rows were copied at
// different times, all later than opts.To: native backups, or a replica that took over
// (docs/DISASTER.md). It returns when all clients can use the instance again. If it is interrupted,
// the same call resumes it. Memory: 100,000 locks, a page of each of four tables, 100 MB for the
// audit.
//
// Errors: ErrSnapshotTooOld if collection has passed opts.To, or an earlier repair has removed it;
// ErrInvalidArgument if it lies in the oracle's future; ErrRestoring, and ErrRepairing for a repair
// to another timestamp; ErrNotHeld, ErrOracleBehind, ErrRepairFindings; ErrConflict if another
// process continues it; those of the store.
func (a *Admin) Repair(ctx context.Context, opts model.RepairOptions) (model.RepairReport, error) {
	return repair.Run(ctx, a.e, opts)
}
