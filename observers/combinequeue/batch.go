package combinequeue

import (
	"context"
	"errors"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// batch is what one fold takes.
type batch[V any] struct {
	sums   []Sum[V]
	index  map[string]int // of a key in sums
	cells  []percolator.Cell
	taken  map[percolator.Cell]bool // the cells: a range may be read again
	bytes  int
	more   bool // the limits kept something out
	locked bool // a row was skipped because of a lock
}

// collect reads a slice up to the limits. If it has to wait for locks longer than LockWait, it
// reads row by row and skips the locked rows.
func (q *Queue[V]) collect(ctx context.Context, tx *percolator.Txn, slice string) (*batch[V], error) {
	b := &batch[V]{index: map[string]int{}, taken: map[percolator.Cell]bool{}}
	locked, err := q.readWithin(ctx, tx, percolator.Prefix(slice), q.cfg.LockWait, b)
	if !locked || err != nil {
		return b, err
	}
	for shard := range shards {
		locked, err := q.readWithin(ctx, tx, percolator.Row(shardRow(slice, shard)), q.cfg.LockWait/8, b)
		if err != nil {
			return nil, err
		}
		b.locked = b.locked || locked
	}
	return b, nil
}

// readWithin reads a range into b, and gives up when it has waited for locks for as long as wait.
// For a slow store it extends the time, for the locks as well: a lock must not take all the time
// that there is.
func (q *Queue[V]) readWithin(
	ctx context.Context, tx *percolator.Txn, r percolator.Range, wait time.Duration, b *batch[V],
) (locked bool, err error) {
	for wait = max(wait, time.Millisecond); ; wait *= 4 {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, wait)
		err := q.read(limited, tx, r, b)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil || time.Since(started) < wait:
			return false, err
		case errors.Is(err, percolator.ErrLocked):
			return true, nil
		}
	}
}

// read adds the contributions in a range to b, up to the limits. When b has too many keys, it goes
// on with these.
func (q *Queue[V]) read(ctx context.Context, tx *percolator.Txn, r percolator.Range, b *batch[V]) error {
	for e, err := range tx.Scan(ctx, q.cfg.Values.Table, r) {
		if err != nil {
			return err
		}
		key, ok := keyOf(e.Cell.Column)
		if !ok || b.taken[e.Cell] {
			continue
		}
		size := len(e.Cell.Column) + len(e.Value)
		if len(b.cells) == q.cfg.MaxEntries || (len(b.cells) > 0 && b.bytes+size > q.cfg.MaxBytes) {
			b.more = true
			return nil
		}
		i, known := b.index[key]
		if !known && len(b.sums) == q.cfg.MaxKeys {
			b.more = true
			continue
		}
		v, err := q.cfg.Values.DecodeEntry(tx, e)
		if err != nil {
			return err
		}
		if known {
			v = q.cfg.Combine(b.sums[i].Value, v)
		} else {
			i = len(b.sums)
			b.index[key] = i
			b.sums = append(b.sums, Sum[V]{Key: key})
		}
		b.sums[i].Value, b.sums[i].Entries = v, b.sums[i].Entries+1
		b.cells, b.bytes = append(b.cells, e.Cell), b.bytes+size
		b.taken[e.Cell] = true
	}
	return nil
}
