package combinequeue

import (
	"fmt"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Add contributes v to key if tx commits. It reads nothing, so tx may be blind, and it conflicts
// with nothing that adds to the key. It combines several contributions of one transaction to one
// key at once; together they cost one cell.
//
// Errors: percolator.ErrInvalidArgument for an empty key or a value that cannot be encoded,
// percolator.ErrTooLarge for a key longer than MaxKeyBytes, and those of percolator.Txn.Set. After
// an error the contribution is not in tx.
func (q *Queue[V]) Add(tx *percolator.Txn, key string, v V) error {
	if key == "" {
		return invalid("the key is empty")
	}
	start, bucket := tx.StartTimestamp(), sliced.Of(key, q.cfg.Buckets)
	slice := sliced.Row(bucket, start)
	column := entryColumn(start, key)
	if n := len(column) - startDigits; n > MaxKeyBytes {
		return fmt.Errorf("combinequeue: %w: the key has %d bytes with 0x00 and 0x01 counted twice, the limit is %d",
			percolator.ErrTooLarge, n, MaxKeyBytes)
	}
	// Commit may move the start timestamp of a blind transaction. The name stays, and no one else's
	// begins with it (I1).
	cell := q.cfg.Values
	cell.Name = column
	row := shardRow(slice, shardOf(start)*q.cfg.Shards/shards)

	q.adding[bucket].Lock()
	defer q.adding[bucket].Unlock()
	before, written, err := tx.Buffered(cell.Cell(row))
	if err != nil {
		return err
	}
	if written {
		earlier, err := cell.Decode(row, before)
		if err != nil {
			return err
		}
		v = q.cfg.Combine(earlier, v)
	} else if err := tx.Notify(percolator.Cell{Table: cell.Table, Row: slice, Column: foldColumn(bucket)}); err != nil {
		return err
	}
	return cell.Set(tx, row, v)
}
