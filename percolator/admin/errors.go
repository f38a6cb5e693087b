package admin

import (
	"github.com/gopercolator/percolator/percolator/model"
)

// The instance, or a table, is fenced: no client reads it or commits to it until what has fenced it
// ends.
var (
	// ErrImporting: an import into the table has started and has not finished. Run the import to its
	// end, or abort it (loader.AbortImport).
	ErrImporting = model.ErrImporting
	// ErrRestoring: a restore into the instance has started and has not finished, so the data is not
	// complete. Run the restore to its end, or abandon it (backup.AbandonRestore).
	ErrRestoring = model.ErrRestoring
	// ErrRepairing: a repair of the instance has started and has not finished. Run it to its end.
	ErrRepairing = model.ErrRepairing
)

// Other work on the instance stands in the way.
var (
	// ErrLeased: another process holds the lease of collection, or of the sweep, and does the work.
	ErrLeased = model.ErrLeased
	// ErrHeld: holds keep snapshots that show what is to be dropped. Release them (ReleaseHold), or
	// wait until they expire.
	ErrHeld = model.ErrHeld
)

// A restore, an import or a repair was refused.
var (
	// ErrNotEmpty: a restore needs empty tables, an import an empty one.
	ErrNotEmpty = model.ErrNotEmpty
	// ErrNotHeld: no hold has kept what the repair needs from collection.
	ErrNotHeld = model.ErrNotHeld
	// ErrOracleBehind: cells are newer than what the oracle hands out. Raise its mark, and run the
	// repair again.
	ErrOracleBehind = model.ErrOracleBehind
	// ErrRepairFindings: the audit of the repaired tables has found something; the fence is still
	// there.
	ErrRepairFindings = model.ErrRepairFindings
)
