package commit

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/tso"
)

// recentWrites remembers when this client last committed to a row, in a table of fixed size that
// may confuse rows but never forgets the newer of two. A blind transaction with a prefetched start
// timestamp older than such a commit would lose against its own client; as it has read nothing, it
// may simply begin later.
type recentWrites struct {
	slots [1 << 14]atomic.Int64
	Seed  maphash.Seed // of this client; set before the first commit
}

func (r *recentWrites) slot(table, row string) *atomic.Int64 {
	h := maphash.String(r.Seed, table) ^ maphash.String(r.Seed, row)
	return &r.slots[h%uint64(len(r.slots))]
}

func (r *recentWrites) wrote(rows []*rowWrites, commitTS tso.Timestamp) {
	for _, rw := range rows {
		s := r.slot(rw.table, rw.row)
		for old := s.Load(); old < int64(commitTS) && !s.CompareAndSwap(old, int64(commitTS)); old = s.Load() {
		}
	}
}

// freshen gives a blind transaction a new start timestamp if it would conflict with a commit of its
// own client.
func (tx *Txn) freshen(ctx context.Context, writes []*Write) error {
	start := tx.StartTimestamp()
	for _, w := range writes {
		if tx.c.Recent.slot(w.Cell.Table, w.Cell.Row).Load() < int64(start) {
			continue
		}
		asked := time.Now()
		ts, err := tx.c.Clock.Next(ctx)
		if err != nil {
			return err
		}
		tx.mu.Lock()
		defer tx.mu.Unlock()
		tx.snap, tx.begun = reads.NewSnapshot(tx.c.Reads, ts), asked
		return nil
	}
	return nil
}
