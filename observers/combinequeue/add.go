package combinequeue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// A contribution to key by the transaction that began at start is the cell
//
//	row     BUCKET.SLICE.SHARD   001.01a2b3c4d5.7
//	column  START KEY            01a2b3c4d5e6f707broker
//
// in hexadecimal digits but for the key: SLICE is start without its last six digits, and SHARD a
// hash of it. START comes first in the column so that what one transaction writes in a row is
// contiguous, which keeps prewrite's predicate short. The notification of a slice is in the row
// BUCKET.SLICE, which is a prefix of its rows.
const (
	shards      = 16
	startDigits = 16
)

// shardRow returns one of the rows that hold the contributions of a slice.
func shardRow(slice string, shard int) string {
	return slice + "." + strconv.FormatInt(int64(shard), 16)
}

// shardOf spreads start timestamps over 16 rows, of which Add uses Config.Shards; consecutive
// transactions may take every other one.
func shardOf(start tso.Timestamp) int { return int(uint64(start) * 0x9e3779b97f4a7c15 >> 60) }

func foldColumn(bucket int) string { return fmt.Sprintf("fold-%03x", bucket) }

func entryColumn(start tso.Timestamp, key string) string {
	return fmt.Sprintf("%0*x", startDigits, uint64(start)) + escaper.Replace(key)
}

// keyOf returns the key of a contribution's column; false for any other column.
func keyOf(column string) (string, bool) {
	if len(column) <= startDigits {
		return "", false
	}
	return unescaper.Replace(column[startDigits:]), true
}

// A column cannot hold the byte 0x00, and a key can.
var (
	escaper   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescaper = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
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
		return sliced.Undeclared(err)
	}
	return cell.Set(tx, row, v)
}
