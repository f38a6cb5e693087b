package admin

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ExportRows streams what a snapshot at ts holds of the rows of table in r, in row order: all
// values, deletions that observers may not know of, and what observers have to do about either.
// Without a hold on ts the stream may end with ErrSnapshotTooOld. Memory: one page, at most 4096
// rows or, beyond its last row, about 4 MiB; where so few rows have anything to export that a
// request is cut off, 16 MiB that are read ahead. [backup.Run] writes whole backups.
//
// [backup.Run]: https://pkg.go.dev/github.com/gopercolator/percolator/percolator/backup#Run
func (a *Admin) ExportRows(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[model.ExportedRow, error] {
	return transfer.ExportRows(ctx, a.e, ts, table, r)
}

// ExportWeak streams the rows of table in r with weak notifications that were pending at ts. Read
// all of ExportRows, of every table, before, and wait for Timing.RequestLifetime: a transaction
// that was about to commit below ts when its rows were read writes its weak notifications before it
// commits.
func (a *Admin) ExportWeak(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[model.ExportedRow, error] {
	return transfer.ExportWeak(ctx, a.e, ts, table, r)
}
