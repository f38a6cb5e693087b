package admin

import (
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/internal/repair"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
)

// The instance, or a table, is fenced: no client reads it or commits to it until what has fenced it
// ends.
var (
	// ErrImporting: an import into the table has started and has not finished. Run the import to its
	// end, or abort it (loader.AbortImport).
	ErrImporting = meta.ErrImporting
	// ErrRestoring: a restore into the instance has started and has not finished, so the data is not
	// complete. Run the restore to its end, or abandon it (backup.AbandonRestore).
	ErrRestoring = meta.ErrRestoring
	// ErrRepairing: a repair of the instance has started and has not finished. Run it to its end.
	ErrRepairing = meta.ErrRepairing
)

// A restore, an import or a repair was refused.
var (
	// ErrNotEmpty: a restore needs empty tables, an import an empty one.
	ErrNotEmpty = transfer.ErrNotEmpty
	// ErrNotHeld: no hold has kept what the repair needs from collection.
	ErrNotHeld = repair.ErrNotHeld
	// ErrOracleBehind: cells are newer than what the oracle hands out. Raise its mark, and run the
	// repair again.
	ErrOracleBehind = repair.ErrOracleBehind
	// ErrRepairFindings: the audit of the repaired tables has found something; the fence is still
	// there.
	ErrRepairFindings = repair.ErrFindings
)
