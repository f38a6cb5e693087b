package percolator

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/internal/reads"
	"github.com/gopercolator/percolator/tso"
)

// Snapshot reads the state at one timestamp. It needs no Close and may be used concurrently.
type Snapshot reads.Snapshot

func (s *Snapshot) r() *reads.Snapshot { return (*reads.Snapshot)(s) }

// StartTimestamp is the timestamp of the snapshot.
func (s *Snapshot) StartTimestamp() tso.Timestamp { return s.r().StartTimestamp() }

// Get returns the value of c in the snapshot; ErrNotFound if there is none.
func (s *Snapshot) Get(ctx context.Context, c Cell) ([]byte, error) { return s.r().Get(ctx, c) }

// GetMulti returns the values of the cells in order, nil where there is none.
func (s *Snapshot) GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error) {
	return s.r().GetMulti(ctx, cells...)
}

// Scan streams the entries of the named columns (all if none) whose rows lie in r, in row order,
// then column order. An error ends the stream. Memory: one page, at most 4096 rows or, beyond its
// first row, about 4 MiB of values.
func (s *Snapshot) Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error] {
	return s.r().Scan(ctx, table, r, columns...)
}

// ScanIndex streams the indexed cells whose value lies in values (half open), in the order of
// values, then rows. Entry.Cell is the indexed cell and Entry.Value its value. ErrSchemaMismatch if
// the table has no such index or it is still being built; ErrSnapshotTooOld if the snapshot is from
// before the index was complete.
func (s *Snapshot) ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error] {
	return s.r().ScanIndex(ctx, table, index, values)
}
