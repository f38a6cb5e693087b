package combinequeue

import (
	"fmt"
	"hash/fnv"
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
	sliceBits   = 24
	shards      = 16
	startDigits = 16
)

func bucketPrefix(bucket int) string { return fmt.Sprintf("%03x.", bucket) }

// sliceRow is the row whose weak cell stands for a slice.
func sliceRow(bucket int, start tso.Timestamp) string {
	return fmt.Sprintf("%03x.%010x", bucket, uint64(start)>>sliceBits)
}

// shardRow is one of the rows that hold the contributions of a slice.
func shardRow(slice string, shard int) string {
	return slice + "." + strconv.FormatInt(int64(shard), 16)
}

// shardOf spreads start timestamps, of which consecutive transactions may take every other one.
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

// bucketOf is the same in every process, of every version.
func bucketOf(key string, buckets int) int {
	h := fnv.New64a()
	h.Write([]byte(key))
	s := h.Sum64()
	return int((s ^ s>>32) % uint64(buckets))
}
