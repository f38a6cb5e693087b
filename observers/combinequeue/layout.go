package combinequeue

import (
	"fmt"
	"strconv"
	"strings"

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
