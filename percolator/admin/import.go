package admin

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
)

// Import is an import into one table under way, for package loader, which is for programs
// ([loader.Bulk]). Its methods may be called concurrently.
//
// Check(row) refuses a row that a transaction could not write either. WriteRows(ctx, rows) writes
// rows that passed it, with the entries of indexes and the notifications of observed columns;
// writing a row again does no harm. Sums(rows) counts rows. Verify(ctx, want, progress) compares
// what is stored with what was read from the source, but for what has expired and may have been
// collected. Lift(ctx) ends the import, at the timestamp that it returns. CommitTimestamp() is the
// commit timestamp of all values that the import writes. TakeOver(ctx, after, waiting), before all
// of these, shuts out a process that has gone on with the import earlier, and removes what was
// written to rows beyond after.
//
// [loader.Bulk]: https://pkg.go.dev/github.com/gopercolator/percolator/percolator/loader#Bulk
type Import = transfer.Import

// ImportRow is a row of a source:
//
//	Row   string
//	Cells []ImportCell
type ImportRow = transfer.ImportRow

// ImportCell is one value of a row:
//
//	Column string
//	Value  []byte
type ImportCell = transfer.ImportCell

// ImportSum tells two sets of cells apart, in whatever order they are counted:
//
//	Cells int64
//	Bytes int64  // of values
//	Hash  uint64 // the sum of a 64-bit hash of each cell, its row, column and value
//
// Add adds another set, which has none of the cells.
type ImportSum = transfer.ImportSum

// ImportSums are sums of cells by how long their values live; 0: until they are deleted. What has
// expired may have been collected before its import ends, and the rest has to be there. Add adds
// others, and Total is the sum of all cells.
type ImportSums = transfer.ImportSums

// ImportReport is what Import.Verify has found:
//
//	ImportSum                 // of the table
//	Rows      int64           // of the table
//	Entries   int64           // of its indexes
//	Findings  []ImportFinding // the first 100 rows that share a value of a unique index
type ImportReport = transfer.ImportReport

// ImportFinding is a row of the table that keeps an import from ending:
//
//	Index string // a unique one, of which two rows have the same value
//	Row   string
//	Other string // the row that has the entry
type ImportFinding = transfer.ImportFinding

// ErrImporting: an import into the table has begun and has not finished, so no client reads it or
// commits to it. Run the import to its end, or abort it.
var ErrImporting = meta.ErrImporting

// MaxImportSource is how long the name of an import's source may be, in bytes.
const MaxImportSource = transfer.MaxImportID

// BeginImport fences a table, or takes up an interrupted import of the same source, which id names
// (at most 1024 bytes). The table has to be empty (ErrNotEmpty, which leaves it as it was). It
// waits until every client must know of the fence and nothing that one has begun before is under
// way (RequestLifetime and MetaMaxAge of Schema.Timing and a little more; 80 s by default), and
// tells waiting, if that is not nil, for how long. quiet: observers are not notified. probe, if not
// nil, is called before a fence is stored, possibly again, with what is Import.Check; its error
// leaves the table as it was.
//
// Errors: ErrImporting if an import of another source is unfinished, or this one is being aborted;
// ErrRestoring, ErrRepairing; percolator.ErrSchemaMismatch for an unknown table.
func (a *Admin) BeginImport(ctx context.Context, table, id string, quiet bool, waiting func(time.Duration), probe func(check func(ImportRow) error) error) (*Import, error) {
	return transfer.BeginImport(ctx, a.e, table, id, quiet, waiting, probe)
}

// AbortImport removes what an unfinished import has written into a table, and lifts its fence. It
// may be broken off and called again. First it waits, as BeginImport does, until every process that
// still imports must know; waiting, if not nil, is told for how long. progress, if not nil, is
// called with the rows that were removed so far. aborted is false if no import is unfinished. What
// an import has written into a table that was dropped since goes with the table.
func (a *Admin) AbortImport(ctx context.Context, table string, waiting func(time.Duration), progress func(rows int64)) (aborted bool, err error) {
	return transfer.AbortImport(ctx, a.e, table, waiting, progress)
}
