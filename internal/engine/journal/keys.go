package journal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Keys of percolator_journal. A stream is spread over the table by its shard, which is part of its
// id; the rows of one stream are adjacent, and in order:
//
//	shard id seq      a batch of entries; seq counts from 1
//	0x40 hash         a cell for which observers are parked
//	0x41 shard id     the header of a stream
//	0x42 time id      rows of tables that hold values which expire before that time (expiry.go)
//
// Headers stand together: all of them are one read. Rejected: the header before its stream's rows.
// A search for the streams would send a request for each.
//
// The shard is one byte below 0x40, the id 16 bytes, seq 8 bytes, big-endian, and the hash the
// SHA-256 of the cell's name.

const (
	shards       = 0x40
	parkedShard  = 0x40
	headerShard  = 0x41
	expiryShard  = 0x42
	streamBytes  = 17 // shard and id
	streamKeyLen = streamBytes + 8
)

// StreamID is the beginning of the keys of a stream: its shard and its id.
type StreamID string

// newStreamID is the id of a stream in a random shard other than those of others, if possible.
func newStreamID(others ...StreamID) StreamID {
	var taken [shards]bool
	for _, o := range others {
		taken[o[0]] = true
	}
	b := make([]byte, streamBytes)
	for range 4 {
		if rand.Read(b); !taken[b[0]%shards] {
			break
		}
	}
	b[0] %= shards
	return StreamID(b)
}

// key is the row of a stream with the number seq; 0 is its header.
func (id StreamID) key(seq uint64) string {
	if seq == 0 {
		return string([]byte{headerShard}) + string(id)
	}
	return string(binary.BigEndian.AppendUint64([]byte(id), seq))
}

// end is behind the last row of a stream.
func (id StreamID) end() string { return string(id) + strings.Repeat("\xff", 8) }

// NoHeaders is all rows but headers: entries, and what is parked.
func NoHeaders() model.Range { return model.Between("", string([]byte{headerShard})) }

// lowTimestamp is the timestamp of a low position: the newest version of its cell is the greatest.
func lowTimestamp(seq uint64) tso.Timestamp { return tso.Timestamp(seq) }

// parseKey is the inverse of key; ok is false for a row of no stream.
func parseKey(key string) (id StreamID, seq uint64, ok bool) {
	if len(key) == 1+streamBytes && key[0] == headerShard && key[1] < shards {
		return StreamID(key[1:]), 0, true
	}
	if len(key) != streamKeyLen || key[0] >= shards {
		return "", 0, false
	}
	seq = binary.BigEndian.Uint64([]byte(key[streamBytes:]))
	return StreamID(key[:streamBytes]), seq, seq > 0
}

// HoldsEntries reports whether a row of percolator_journal, by its key, holds a batch of entries:
// it is no header, and no cell for which observers are parked.
func HoldsEntries(key string) bool {
	_, seq, ok := parseKey(key)
	return ok && seq > 0
}

// parkedKey is the row of a cell for which observers are parked. The name of a cell may be longer
// than a row key.
func parkedKey(c model.Cell) string {
	h := sha256.New()
	for _, s := range []string{c.Table, c.Row, c.Column} {
		h.Write(appendName(nil, s))
	}
	return string(h.Sum([]byte{parkedShard}))
}

// CutStreamID cuts an id off the front of b.
func CutStreamID(b []byte) (id StreamID, rest []byte, ok bool) {
	if len(b) < streamBytes || b[0] >= shards {
		return "", nil, false
	}
	return StreamID(b[:streamBytes]), b[streamBytes:], true
}
