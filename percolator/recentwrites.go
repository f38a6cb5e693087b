package percolator

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// recentWrites remembers when this client last committed to a row, in a table of fixed size that may confuse rows but never
// forgets the newer of two. A blind transaction whose prefetched start timestamp is older than such a commit would lose against
// its own past; as it has read nothing, it may simply begin later.
type recentWrites struct {
	slots [1 << 14]atomic.Int64
	seed  maphash.Seed
}

func (r *recentWrites) slot(table, row string) *atomic.Int64 {
	h := maphash.String(r.seed, table) ^ maphash.String(r.seed, row)
	return &r.slots[h%uint64(len(r.slots))]
}

func (r *recentWrites) wrote(rows []*rowWrites, commitTS tso.Timestamp) {
	for _, rw := range rows {
		s := r.slot(rw.table, rw.row)
		for old := s.Load(); old < int64(commitTS) && !s.CompareAndSwap(old, int64(commitTS)); old = s.Load() {
		}
	}
}

// freshen gives a blind transaction a new start timestamp if it would conflict with what its own client has committed.
func (tx *Txn) freshen(ctx context.Context, writes []*write) error {
	for _, w := range writes {
		if tx.c.recent.slot(w.cell.Table, w.cell.Row).Load() < int64(tx.snap.ts) {
			continue
		}
		asked := time.Now()
		ts, err := tx.c.next(ctx)
		if err != nil {
			return err
		}
		tx.mu.Lock()
		defer tx.mu.Unlock()
		tx.snap, tx.begun = newSnapshot(tx.c, ts), asked
		return nil
	}
	return nil
}
