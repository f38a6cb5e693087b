package exportqueue

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// The position of a partition is the slice at which a run begins to search. What lies below it was
// delivered and deleted. To pass over it would cost reads until the collector has removed it and
// Bigtable has compacted the table, which takes days.
//
// I22: below the position every entry was delivered or given up (observers.Drop), and no
// transaction that has an entry there can still commit. So a later run misses nothing that it must
// not overtake. A run with start timestamp S moves the position to a slice at least half the
// retention and the request lifetime below S. A transaction that wrote below that slice began at s.
// If it commits, at c, one of these holds:
//
//   - c is above S. Then the transaction is older than half the retention, and refuses to commit
//     (I16). The request lifetime is a margin for clocks that run at different speeds.
//   - c is at most S. Then it had locked its entry before S (I5), and the run looks at the slice
//     twice after S. Where the first look finds the lock, the slice is dirty: its writer died
//     before phase two, or is held up while the oracle's clock jumps. Where it does not, the
//     transaction committed before that look came to the entry, and had notified the slice before
//     (I11). The second look finds the notification, unless a run that delivered the entry has
//     erased it.
//
// A dirty slice holds the position, a parked one included, and so does the slice that the run is
// for. The run's own transaction writes the position, so the position cannot go ahead of the
// deletions. Runs of several workers may write it in any order: each value holds by itself, and a
// lower one costs nothing but reads.
//
// The retry of a dead letter, whose entry comes back below the position, sets the position back in
// its transaction, and so conflicts with a run that moves it.
//
// Only the order rests on I22, and that any run delivers what is parked. Delivery does not: a run
// always reads the slice that it was notified of, wherever that lies.
//
// Rejected: one look, because a read is atomic in each row only: it misses an entry that commits
// while the look is between the slice's row and the entry's. The GC watermark, because a hold keeps
// it back, and without collection it stands still. A position in the worker's memory, because every
// restart would read everything. A request of its own, because it may land when the deletions do
// not.

// positionStep is how far the position may fall behind before a run moves it: a move adds a row to
// the run's transaction, and a version until collection.
const positionStep = time.Minute

// position returns the key at which a run begins to search, the partition's first one before a
// position was stored, and the backlog.
func (q *Queue) position(ctx context.Context, tx *percolator.Txn, partition int) (from, backlog string, err error) {
	cells := []percolator.Cell{positionCell(q.cfg.Table, partition), q.backlogCell(partition)}
	values, err := tx.GetMulti(ctx, cells...)
	if err != nil {
		return "", "", err
	}
	for i, value := range values {
		if value != nil && (len(value) != sliced.RowBytes || !strings.HasPrefix(string(value), sliced.Prefix(partition))) {
			return "", "", corrupt(cells[i], "it is no slice of the partition")
		}
	}
	return cmp.Or(string(values[0]), sliced.Prefix(partition)), string(values[1]), nil
}

// advance lets tx move the position. tx is a run that began to search at from and read the slices
// in dirty.
func (q *Queue) advance(ctx context.Context, client *percolator.Client, tx *percolator.Txn, partition int, from string, dirty []string) error {
	e := client.Engine()
	limit := tx.StartTimestamp().Add(-e.Config.Retention/2 - e.Store.Timing.RequestLifetime)
	next := min(sliced.Row(partition, max(0, limit)), dirty[0])
	if next <= from || sliced.Row(partition, max(0, limit.Add(-positionStep))) <= from {
		return nil
	}
	missed, _, err := q.search(ctx, client, from, next)
	if err != nil {
		return err
	}
	if len(missed) > 0 {
		next = missed[0]
	}
	return tx.Set(positionCell(q.cfg.Table, partition), []byte(next))
}
