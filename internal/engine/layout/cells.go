// Package layout encodes what the protocol keeps in a row: locks, write records, notifications,
// observer states. It sits on model and sends nothing; what it decides, it decides purely.
package layout

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A Percolator cell is spread over four families of one Bigtable table, under the user's column
// name (Figure 5 of the paper; docs/internals/PROTOCOL.md, "Cells").
//
//	family  timestamp   value
//	data    start_ts    the user's bytes
//	lock    start_ts    LockRecord: who holds the cell and where the primary is
//	write   commit_ts   EncodeWrite: start_ts of the data, and the kind of the write
//	notify  commit_ts   empty
//
// A rollback marker is a write record at start_ts itself (I4).
const (
	DataFamily   = "data"
	LockFamily   = "lock"
	WriteFamily  = "write"
	NotifyFamily = "notify"
)

// MetaFamily is the family of the instance's own table, [model.MetaTable].
const MetaFamily = "meta"

// JournalFamily is the family of the journal's table.
const JournalFamily = "journal"

// Families are the families of a user's table.
var Families = [...]string{DataFamily, LockFamily, WriteFamily, NotifyFamily}

// Reserved begins the engine's columns; no user column contains 0x00.
const Reserved = "\x00"

// Kind says what a lock or write record stands for.
type Kind byte

const (
	KindPut      Kind = 'P' // the cell has the data at start_ts
	KindDelete   Kind = 'D' // the cell is deleted
	KindLock     Kind = 'L' // no change; conflicts like a write (GetForUpdate, acknowledgments)
	KindRollback Kind = 'R' // marker: start_ts never commits here (write records only)
)

// Changes reports whether a record of this kind decides what a reader sees.
func (k Kind) Changes() bool { return k == KindPut || k == KindDelete }

// MayChange reports whether a write record, as it is stored, is not one of a lock or rollback: it
// changes what a reader sees, or cannot be decoded.
func MayChange(record []byte) bool {
	if len(record) < WriteBytes {
		return true
	}
	kind := Kind(record[WriteBytes-1])
	return kind != KindLock && kind != KindRollback
}

// WriteRecord is one cell of the write family.
type WriteRecord struct {
	CommitTS tso.Timestamp // the cell's timestamp; start_ts for a rollback marker
	StartTS  tso.Timestamp
	Kind     Kind
	Expires  tso.Timestamp // of a put: snapshots from here on see no value; 0: all do
}

// WriteBytes is the length of a write record without further fields.
const WriteBytes = 9

// EncodeWrite puts start_ts first, so that a value range can ask for the record of one transaction
// (store.Record).
func EncodeWrite(startTS tso.Timestamp, k Kind) []byte {
	b := RecordBytes(startTS, k)
	return b[:]
}

// RecordBytes is EncodeWrite as a value.
func RecordBytes(startTS tso.Timestamp, k Kind) (b [WriteBytes]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(startTS))
	b[WriteBytes-1] = byte(k)
	return b
}

// fieldExpires marks the eight bytes that follow the kind of a put that expires.
const fieldExpires = 1

// EncodePut is EncodeWrite of a put that expires, unless expires is 0.
func EncodePut(startTS, expires tso.Timestamp) []byte {
	b := EncodeWrite(startTS, KindPut)
	if expires == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(append(b, fieldExpires), uint64(expires))
}

// DecodeWrite accepts bytes after the kind: later versions may add fields.
func DecodeWrite(ts int64, b []byte) (WriteRecord, error) {
	commit, err := FromCell(ts)
	if err != nil {
		return WriteRecord{}, err
	}
	if len(b) < WriteBytes {
		return WriteRecord{}, fmt.Errorf("a write record has %d bytes", len(b))
	}
	w := WriteRecord{CommitTS: commit, StartTS: tso.Timestamp(binary.BigEndian.Uint64(b)), Kind: Kind(b[8])}
	switch {
	case w.Kind != KindPut && w.Kind != KindDelete && w.Kind != KindLock && w.Kind != KindRollback:
		return WriteRecord{}, fmt.Errorf("a write record of unknown kind %#x", b[8])
	case w.StartTS <= 0 || w.StartTS > commit || (w.Kind == KindRollback) != (w.StartTS == commit):
		return WriteRecord{}, fmt.Errorf("a write record at %d that names start timestamp %d", commit, w.StartTS)
	}
	if rest := b[WriteBytes:]; w.Kind == KindPut && len(rest) > 8 && rest[0] == fieldExpires {
		w.Expires = tso.Timestamp(binary.BigEndian.Uint64(rest[1:]))
		if w.Expires <= commit {
			return WriteRecord{}, fmt.Errorf("a write record at %d that expires at %d", commit, w.Expires)
		}
	}
	return w, nil
}

// CellTime is the Bigtable timestamp of ts (I18): Bigtable keeps multiples of 1000 µs only, and
// Google's client truncates the rest silently.
func CellTime(ts tso.Timestamp) int64 { return int64(ts) * 1000 }

// FromCell reverses CellTime.
func FromCell(ts int64) (tso.Timestamp, error) {
	if ts <= 0 || ts%1000 != 0 {
		return 0, fmt.Errorf("a cell at timestamp %d, which no transaction has", ts)
	}
	return tso.Timestamp(ts / 1000), nil
}

// DataVersion is one cell of the data family.
type DataVersion struct {
	StartTS tso.Timestamp
	Value   []byte
}

// Versions is what one request saw of one cell, newest first in each family.
type Versions struct {
	Corrupt error // a cell that cannot be decoded: nothing can be said about this column
	Locks   []LockRecord
	Writes  []WriteRecord
	Data    []DataVersion
}

// narrow is Versions with room for the record and the value that a read usually finds.
type narrow struct {
	Versions
	write [1]WriteRecord
	data  [1]DataVersion
}

func newVersions() *Versions {
	n := new(narrow)
	n.Writes, n.Data = n.write[:0], n.data[:0]
	return &n.Versions
}

// RowVersions is what one request saw of one row, by column.
type RowVersions map[string]*Versions

// DecodeRow sorts the cells of a Bigtable row by column, without the notify family. A cell that
// cannot be decoded spoils its column only: unrelated rows and columns come in one answer.
func DecodeRow(table string, row Row) RowVersions {
	out := make(RowVersions, 2)
	for i := range row.Items {
		if it := &row.Items[i]; it.Family != NotifyFamily {
			out.add(table, row.Key, it)
		}
	}
	return out
}

func (rv RowVersions) add(table, key string, item *Item) {
	column := item.Column
	v := rv[column]
	if v == nil {
		v = newVersions()
		rv[column] = v
	}
	var err error
	switch item.Family {
	case LockFamily:
		var l LockRecord
		if l, err = DecodeLock(item.Timestamp, item.Value); err == nil {
			v.Locks = append(v.Locks, l)
		}
	case WriteFamily:
		var w WriteRecord
		if w, err = DecodeWrite(item.Timestamp, item.Value); err == nil {
			v.Writes = append(v.Writes, w)
		}
	case DataFamily:
		var ts tso.Timestamp
		if ts, err = FromCell(item.Timestamp); err == nil {
			v.Data = append(v.Data, DataVersion{ts, item.Value})
		}
	}
	if err != nil {
		v.Corrupt = catalog.CellError(model.ErrCorrupt, model.Cell{Table: table, Row: key, Column: column}, "%v; percolator row shows what is stored", err)
	}
}

// Columns lists the columns seen, in order.
func (rv RowVersions) Columns() []string {
	out := make([]string, 0, len(rv))
	for column := range rv {
		out = append(out, column)
	}
	slices.Sort(out)
	return out
}

// AckPrefix begins the acknowledgment columns.
const AckPrefix = Reserved + "ack\x00"

// AckColumn is the acknowledgment column of an observer: c:ack_O of Figure 5, in the row of the
// observed cell.
func AckColumn(column, observer string) string {
	return AckPrefix + observer + "\x00" + column
}

// Acknowledged is the inverse of AckColumn.
func Acknowledged(column string) (of, observer string, ok bool) {
	rest, ok := strings.CutPrefix(column, AckPrefix)
	if !ok {
		return "", "", false
	}
	observer, of, ok = strings.Cut(rest, "\x00")
	return of, observer, ok && observer != "" && of != ""
}

// TracePrefix begins the columns that record the erasure of weak notifications. A trace is a
// rollback marker at a timestamp taken after the runs had committed. A marker changes nothing, and
// the collector removes it once it is at or below the GC watermark.
const TracePrefix = Reserved + "weak\x00"

// IsTrace reports whether a column holds a trace.
func IsTrace(column string) bool { return strings.HasPrefix(column, TracePrefix) }
