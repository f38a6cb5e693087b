package commit

import (
	"hash/maphash"
	"sync/atomic"

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

// wouldConflict reports whether this client has committed to the row of a write since the start
// timestamp.
func (tx *Txn) wouldConflict(w *Write) bool {
	return tx.c.Recent.slot(w.Cell.Table, w.Cell.Row).Load() >= int64(tx.StartTimestamp())
}
