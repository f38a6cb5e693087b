package percolator

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/tso"
)

// Reader is what *Txn and *Snapshot share. All its answers come from one snapshot, however long
// they take.
type Reader interface {
	// StartTimestamp returns the timestamp of the snapshot.
	StartTimestamp() tso.Timestamp
	// Get returns a cell's value, or ErrNotFound where there is none. An empty value is not
	// absence.
	Get(ctx context.Context, c Cell) ([]byte, error)
	// GetMulti returns the values in order, nil where there is none.
	GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error)
	// Scan streams entries in row order, then column order; no columns means all.
	Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error]
	// ScanIndex streams the indexed cells whose value lies in values, in the order of values, then
	// rows.
	ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error]
}

// Scanner is a Reader that also scans several ranges of rows or of an index, ranges of columns,
// from the last row to the first, and to a limit. *Txn and *Snapshot are Scanners.
type Scanner interface {
	Reader
	// ScanWith streams the entries that o selects, in the order of Scan or ScanIndex, or against it.
	ScanWith(ctx context.Context, table string, o ScanOptions) iter.Seq2[Entry, error]
}
