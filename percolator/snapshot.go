package percolator

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/tso"
)

// Snapshot reads the state at one timestamp. It needs no Close and may be used concurrently.
type Snapshot reads.Snapshot

func (s *Snapshot) r() *reads.Snapshot { return (*reads.Snapshot)(s) }

// StartTimestamp returns the timestamp of the snapshot.
func (s *Snapshot) StartTimestamp() tso.Timestamp { return s.r().StartTimestamp() }

// Get returns the value of c in the snapshot, or ErrNotFound. It waits for a lock of a live
// transaction until ctx ends (ErrLocked with the context's error). The slice is the caller's.
func (s *Snapshot) Get(ctx context.Context, c Cell) ([]byte, error) { return s.r().Get(ctx, c) }

// GetMulti returns the values of the cells in order, nil where there is none.
func (s *Snapshot) GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error) {
	return s.r().GetMulti(ctx, cells...)
}

// Scan streams the entries of the named columns (all if none is named) of the rows in r, in row
// order, then column order. An error ends the stream. Only ctx limits how long it takes, however
// many rows without these columns lie in between. It holds one page in memory: at most 4096 rows,
// or about 4 MiB and the row that exceeds them; where so few rows have the columns that a request
// is cut off at its lifetime (Schema.Timing), it reads on in up to 8 parts of the table at once,
// and holds 16 MiB.
func (s *Snapshot) Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error] {
	return s.r().Scan(ctx, table, r, columns...)
}

// ScanWith is Scan, or ScanIndex, of the cells that o selects, each once. Errors are those of Scan
// and ScanIndex: ErrSchemaMismatch (unknown table or index), ErrInvalidArgument (names; a limit
// below 0; columns of an index), ErrTooLarge (ScanOptions has the limits), ErrSnapshotTooOld, and
// ErrLocked with the context's error.
func (s *Snapshot) ScanWith(ctx context.Context, table string, o ScanOptions) iter.Seq2[Entry, error] {
	return s.r().ScanWith(ctx, table, o)
}

// ScanIndex streams the indexed cells whose value lies in values (half open), in the order of
// values, then rows. Entry.Cell is the indexed cell, Entry.Value its value. Errors:
// ErrSchemaMismatch if the table has no such index, if the index is still building, or if it was
// dropped since the scan began; ErrSnapshotTooOld if the snapshot is older than the complete index.
func (s *Snapshot) ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error] {
	return s.r().ScanIndex(ctx, table, ScanOptions{Index: index, Rows: []Range{values}})
}

// Reader is what *Txn and *Snapshot share. All its answers come from one snapshot, however long
// they take. Errors of all its reads: ErrInvalidArgument (a name that no table, row or column may
// have), ErrSchemaMismatch (an unknown table or index), ErrSnapshotTooOld (the snapshot is older
// than what is kept), ErrLocked with the context's error (a live transaction holds a lock until ctx
// ends), ErrCorrupt (stored bytes that cannot be decoded), ErrClosed, and those of the store. A
// *Txn returns ErrTxnDone after its end.
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
