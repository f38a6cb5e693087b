package percolator

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// A Percolator cell is spread over four families of one Bigtable table, under the user's column name (Figure 5 of the
// paper; docs/PROTOCOL.md, "Cells").
//
//	family  timestamp   value
//	data    start_ts    the user's bytes
//	lock    start_ts    encodeLock: who holds the cell and where the primary is
//	write   commit_ts   encodeWrite: start_ts of the data, and the kind of the write
//	notify  commit_ts   empty
//
// A rollback marker is a write record at start_ts itself (I4).
const (
	dataFamily   = "data"
	lockFamily   = "lock"
	writeFamily  = "write"
	notifyFamily = "notify"
)

// reserved begins the columns that are ours; no user column contains 0x00.
const reserved = "\x00"

const ackPrefix = reserved + "ack\x00"

// ackColumn is the acknowledgment column of an observer: c:ack_O of Figure 5, in the row of the observed cell.
func ackColumn(column, observer string) string {
	return ackPrefix + observer + "\x00" + column
}

// kind says what a lock or write record stands for.
type kind byte

const (
	kindPut      kind = 'P' // the cell has the data at start_ts
	kindDelete   kind = 'D' // the cell is deleted
	kindLock     kind = 'L' // nothing changed; conflicts like a write (GetForUpdate, acknowledgments)
	kindRollback kind = 'R' // marker: the transaction start_ts never commits here (write records only)
)

// changes reports whether a record of this kind decides what a reader sees.
func (k kind) changes() bool { return k == kindPut || k == kindDelete }

// writeRecord is one cell of the write family.
type writeRecord struct {
	commitTS tso.Timestamp // the cell's timestamp; start_ts for a rollback marker
	startTS  tso.Timestamp
	kind     kind
}

// encodeWrite puts start_ts first, so that a value range can ask for "the record of transaction s" (startFilter).
func encodeWrite(startTS tso.Timestamp, k kind) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 9), uint64(startTS)), byte(k))
}

// decodeWrite accepts bytes after the kind: fields of later versions.
func decodeWrite(ts bigtable.Timestamp, b []byte) (writeRecord, error) {
	commit, err := fromCell(ts)
	if err != nil {
		return writeRecord{}, err
	}
	if len(b) < 9 {
		return writeRecord{}, fmt.Errorf("a write record has %d bytes", len(b))
	}
	w := writeRecord{commitTS: commit, startTS: tso.Timestamp(binary.BigEndian.Uint64(b)), kind: kind(b[8])}
	switch {
	case w.kind != kindPut && w.kind != kindDelete && w.kind != kindLock && w.kind != kindRollback:
		return writeRecord{}, fmt.Errorf("a write record of unknown kind %#x", b[8])
	case w.startTS <= 0 || w.startTS > commit || (w.kind == kindRollback) != (w.startTS == commit):
		return writeRecord{}, fmt.Errorf("a write record at %d that names start timestamp %d", commit, w.startTS)
	}
	return w, nil
}

// lockRecord is one cell of the lock family.
type lockRecord struct {
	startTS  tso.Timestamp // the cell's timestamp
	kind     kind          // what commit will write
	primary  Cell
	placed   tso.Timestamp // oracle time when it was placed or refreshed
	ttl      time.Duration // it may be judged dead after placed + ttl
	observed bool          // whoever commits it writes the notify cell (I10)
	session  string        // lease of the client; "" for none
}

const lockVersion = 1

func (l *lockRecord) encode() []byte {
	b := make([]byte, 0, 32+len(l.primary.Table)+len(l.primary.Row)+len(l.primary.Column)+len(l.session))
	b = append(b, lockVersion, byte(l.kind), boolByte(l.observed))
	b = binary.BigEndian.AppendUint64(b, uint64(l.placed))
	b = binary.AppendUvarint(b, uint64(l.ttl/time.Millisecond))
	for _, s := range []string{l.primary.Table, l.primary.Row, l.primary.Column, l.session} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodeLock never panics, whatever the bytes, and never accepts a lock that this package could not have written.
func decodeLock(ts bigtable.Timestamp, b []byte) (lockRecord, error) {
	start, err := fromCell(ts)
	if err != nil {
		return lockRecord{}, err
	}
	if len(b) < 11 || b[0] != lockVersion || b[2] > 1 {
		return lockRecord{}, fmt.Errorf("a lock of %d bytes that cannot be decoded", len(b))
	}
	l := lockRecord{startTS: start, kind: kind(b[1]), observed: b[2] == 1, placed: tso.Timestamp(binary.BigEndian.Uint64(b[3:]))}
	b = b[11:]
	ttl, n := binary.Uvarint(b)
	if n <= 0 || ttl > uint64(24*time.Hour/time.Millisecond) || (l.kind != kindLock && !l.kind.changes()) || l.placed < start {
		return lockRecord{}, fmt.Errorf("a lock whose kind, time or TTL cannot be")
	}
	l.ttl = time.Duration(ttl) * time.Millisecond
	b = b[n:]
	for _, field := range []*string{&l.primary.Table, &l.primary.Row, &l.primary.Column, &l.session} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return lockRecord{}, fmt.Errorf("a lock that ends too early")
		}
		*field = string(b[n : n+int(size)])
		b = b[n+int(size):]
	}
	if len(b) != 0 || l.primary.Table == "" || l.primary.Row == "" || l.primary.Column == "" {
		return lockRecord{}, fmt.Errorf("a lock without a primary or with bytes after its end")
	}
	return l, nil
}

// cellTime is the Bigtable timestamp of ts (I18): Bigtable keeps multiples of 1000 µs only, and Google's client
// truncates the rest silently.
func cellTime(ts tso.Timestamp) bigtable.Timestamp { return bigtable.Timestamp(ts) * 1000 }

func fromCell(ts bigtable.Timestamp) (tso.Timestamp, error) {
	if ts <= 0 || ts%1000 != 0 {
		return 0, fmt.Errorf("a cell at timestamp %d, which no transaction has", ts)
	}
	return tso.Timestamp(ts / 1000), nil
}

// dataVersion is one cell of the data family.
type dataVersion struct {
	startTS tso.Timestamp
	value   []byte
}

// versions is what one request saw of one cell, newest first in each family.
type versions struct {
	corrupt error // a cell that cannot be decoded: nothing can be said about this column
	locks   []lockRecord
	writes  []writeRecord
	data    []dataVersion
}

// rowVersions is what one request saw of one row, by column.
type rowVersions map[string]*versions

// decodeRow sorts the cells of a Bigtable row by column. Cells of the notify family are left out. A cell that cannot be
// decoded spoils its column only: rows and columns of strangers travel in one answer.
func decodeRow(table string, row bigtable.Row) rowVersions {
	out := make(rowVersions, 2)
	key := row.Key()
	for _, family := range []string{lockFamily, writeFamily, dataFamily} {
		for i := range row[family] {
			out.add(table, key, family, &row[family][i])
		}
	}
	return out
}

func (rv rowVersions) add(table, key, family string, item *bigtable.ReadItem) {
	column := strings.TrimPrefix(item.Column[len(family):], ":")
	v := rv[column]
	if v == nil {
		v = new(versions)
		rv[column] = v
	}
	var err error
	switch family {
	case lockFamily:
		var l lockRecord
		if l, err = decodeLock(item.Timestamp, item.Value); err == nil {
			v.locks = append(v.locks, l)
		}
	case writeFamily:
		var w writeRecord
		if w, err = decodeWrite(item.Timestamp, item.Value); err == nil {
			v.writes = append(v.writes, w)
		}
	case dataFamily:
		var ts tso.Timestamp
		if ts, err = fromCell(item.Timestamp); err == nil {
			v.data = append(v.data, dataVersion{ts, item.Value})
		}
	}
	if err != nil {
		v.corrupt = cellErr(ErrCorrupt, Cell{table, key, column}, "%v", err)
	}
}

// columns lists the columns seen, in order.
func (rv rowVersions) columns() []string {
	names := make([]string, 0, len(rv))
	for name := range rv {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}
