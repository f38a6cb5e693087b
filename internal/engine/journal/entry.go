// Package journal records what each transaction is about to write, before it may commit, so that
// unfinished work and garbage are found by what changed and not by passing over tables. It stands
// on store, beneath commit, which appends to it, and settle, gc and sweep, which read it.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A row of a stream holds a batch of entries, those that waited while the row before it was on its
// way. The first byte is a version, and table names come once:
//
//	batch   version, n, n table names, entries until the end
//	entry   start_ts, flags, [primary: table, row, column], n, n rows
//	row     table·4 + flags, key
//
// Numbers are unsigned varints; a name is its length and its bytes; a table is its place among the
// names. An entry that is too large for a row is cut into several, each with the transaction and
// its primary, so any one of them can be dealt with alone.

// Limits of the journal.
const (
	// MaxBatchBytes bounds the value of a stream's row.
	MaxBatchBytes = 1 << 20
	// MaxEntryParts is how many rows of a stream one transaction may take: its commit is
	// ErrTooLarge beyond it.
	MaxEntryParts = 64

	batchVersion = 1
	// partBytes bounds an entry, so that several fit into a batch.
	partBytes = MaxBatchBytes / 4
)

const (
	flagPrimary = 1

	rowObserved = 1
	rowWeak     = 2
)

var errBatch = errors.New("a batch of journal entries that cannot be decoded")

// entryBytes is at least what the entry takes in a batch.
func entryBytes(e *model.JournalEntry) int {
	n := 3*binary.MaxVarintLen64 + cellBytes(e.Primary)
	for _, r := range e.Rows {
		n += rowBytes(r)
	}
	return n
}

func rowBytes(r model.JournalName) int { return 3*binary.MaxVarintLen64 + len(r.Table) + len(r.Key) }

func cellBytes(c model.Cell) int {
	return 3*binary.MaxVarintLen64 + len(c.Table) + len(c.Row) + len(c.Column)
}

// entryParts cuts an entry into some of at most partBytes. ErrTooLarge: more than MaxEntryParts.
func entryParts(e *model.JournalEntry) ([]*model.JournalEntry, error) {
	if entryBytes(e) <= partBytes {
		return []*model.JournalEntry{e}, nil
	}
	var parts []*model.JournalEntry
	for rows := e.Rows; len(rows) > 0; {
		p := &model.JournalEntry{StartTS: e.StartTS, Primary: e.Primary}
		size, n := entryBytes(p), 0
		for n < len(rows) && (n == 0 || size+rowBytes(rows[n]) <= partBytes) {
			size += rowBytes(rows[n])
			n++
		}
		p.Rows, rows = rows[:n:n], rows[n:]
		parts = append(parts, p)
	}
	if len(parts) > MaxEntryParts {
		return nil, fmt.Errorf("percolator: transaction %d: %w: its %d rows take more than %d MiB of the journal", e.StartTS, model.ErrTooLarge, len(e.Rows), MaxEntryParts*partBytes>>20)
	}
	return parts, nil
}

// encodeBatch is the value of a stream's row.
func encodeBatch(entries []*model.JournalEntry) []byte {
	tables := map[string]uint64{}
	var names []string
	place := func(table string) uint64 {
		at, ok := tables[table]
		if !ok {
			at = uint64(len(names))
			tables[table], names = at, append(names, table)
		}
		return at
	}
	var b []byte
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(e.StartTS))
		if e.Primary == (model.Cell{}) {
			b = append(b, 0)
		} else {
			b = append(b, flagPrimary)
			b = binary.AppendUvarint(b, place(e.Primary.Table))
			b = appendName(appendName(b, e.Primary.Row), e.Primary.Column)
		}
		b = binary.AppendUvarint(b, uint64(len(e.Rows)))
		for _, r := range e.Rows {
			flags := uint64(0)
			if r.Observed {
				flags |= rowObserved
			}
			if r.Weak {
				flags |= rowWeak
			}
			b = binary.AppendUvarint(b, place(r.Table)<<2|flags)
			b = appendName(b, r.Key)
		}
	}
	head := binary.AppendUvarint([]byte{batchVersion}, uint64(len(names)))
	for _, name := range names {
		head = appendName(head, name)
	}
	return append(head, b...)
}

func appendName(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeBatch decodes the value of a stream's row. It never panics, whatever the bytes, and accepts
// only what this package could have written. Its error holds nothing of the value.
func DecodeBatch(value []byte) ([]model.JournalEntry, error) {
	if len(value) == 0 || len(value) > MaxBatchBytes {
		return nil, errBatch
	}
	if value[0] != batchVersion {
		return nil, fmt.Errorf("a batch of journal entries of version %d, and this program knows %d", value[0], batchVersion)
	}
	d := decoder{rest: value[1:]}
	for range d.count(1) {
		d.tables = append(d.tables, d.name(maxTableBytes))
	}
	var entries []model.JournalEntry
	for len(d.rest) > 0 && !d.failed {
		entries = append(entries, d.entry())
	}
	if d.failed || len(entries) == 0 || slices.Contains(d.tables, "") {
		return nil, errBatch
	}
	return entries, nil
}

// Bigtable's limits of a table's name and of a qualifier, which is longer than a user's column
// where it names an acknowledgment.
const (
	maxTableBytes     = 128
	maxQualifierBytes = 16 << 10
)

// decoder reads a batch from its front; once it has failed it returns zeros.
type decoder struct {
	rest   []byte
	tables []string
	failed bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count is the length of a list whose elements take at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.number()
	if n > uint64(len(d.rest)/size) {
		d.failed, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) name(most int) string {
	n := d.count(1)
	if n > most {
		d.failed, d.rest = true, nil
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) table(at uint64) string {
	if at >= uint64(len(d.tables)) {
		d.failed, d.rest = true, nil
		return ""
	}
	return d.tables[at]
}

func (d *decoder) entry() model.JournalEntry {
	e := model.JournalEntry{StartTS: tso.Timestamp(d.number())}
	switch flags := d.number(); flags {
	case 0:
	case flagPrimary:
		e.Primary = model.Cell{Table: d.table(d.number()), Row: d.name(model.MaxRowKeyBytes), Column: d.name(maxQualifierBytes)}
		d.failed = d.failed || e.Primary.Row == "" || e.Primary.Column == ""
	default:
		d.failed = true
	}
	n := d.count(2)
	if e.StartTS <= 0 || e.StartTS > tso.MaxTimestamp || n == 0 {
		d.failed = true
	}
	for range n {
		head := d.number()
		r := model.JournalName{Table: d.table(head >> 2), Key: d.name(model.MaxRowKeyBytes), Observed: head&rowObserved != 0, Weak: head&rowWeak != 0}
		if d.failed = d.failed || r.Key == ""; d.failed {
			return model.JournalEntry{}
		}
		e.Rows = append(e.Rows, r)
	}
	return e
}
