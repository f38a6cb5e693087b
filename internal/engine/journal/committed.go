package journal

import (
	"encoding/binary"

	"github.com/gopercolator/percolator/tso"
)

// A client tells of its committed transactions once phase two is done, so that the collector erases
// what they have made garbage without reading their rows (J13). What it tells rides in a cell of
// its own beside the next batch of the same stream, and costs no request. It may get lost with the
// client, or with that row: the collector then reads the rows. So nothing waits for it, and a
// version that does not know the cell passes it over.
//
//	cell          version, n, n column names, transactions until the end
//	transaction   start_ts, commit_ts - start_ts, n, n rows
//	row           place in the entry, n, n times the place of a column's name
//
// Rejected: naming the overwritten versions in the entry, and taking a settled entry for a
// committed one. Entries of aborted transactions settle as well, and their rows would lose what
// they hold. Rejected: naming versions. All that is older than the transaction's start timestamp is
// garbage, whoever has written it.

// Committed is a transaction that has committed in all of its rows.
type Committed struct {
	StartTS, CommitTS tso.Timestamp
	Rows              []CommittedRow
}

// CommittedRow is a row of which nothing has to be read to erase what the transaction has made
// garbage: there it has only put values that do not expire, in columns that nobody observes.
type CommittedRow struct {
	Place   int // in the transaction's entry
	Columns []string
}

const (
	committedVersion = 1
	// maxCommittedBytes bounds what waits to be told in one stream, and so the cell.
	maxCommittedBytes = 64 << 10
)

// committedBatch is what waits to be told in one stream.
type committedBatch struct {
	places map[string]uint64
	names  []byte
	body   []byte
}

// add adds a transaction, unless there is no room.
func (t *committedBatch) add(c Committed) {
	if len(t.names)+len(t.body)+c.size() > maxCommittedBytes {
		return
	}
	t.body = binary.AppendUvarint(t.body, uint64(c.StartTS))
	t.body = binary.AppendUvarint(t.body, uint64(c.CommitTS-c.StartTS))
	t.body = binary.AppendUvarint(t.body, uint64(len(c.Rows)))
	for _, r := range c.Rows {
		t.body = binary.AppendUvarint(t.body, uint64(r.Place))
		t.body = binary.AppendUvarint(t.body, uint64(len(r.Columns)))
		for _, column := range r.Columns {
			t.body = binary.AppendUvarint(t.body, t.place(column))
		}
	}
}

func (t *committedBatch) place(column string) uint64 {
	at, ok := t.places[column]
	if !ok {
		if t.places == nil {
			t.places = map[string]uint64{}
		}
		at = uint64(len(t.places))
		t.places[column], t.names = at, appendName(t.names, column)
	}
	return at
}

// size is at least what the transaction adds.
func (c Committed) size() int {
	n := 3 * binary.MaxVarintLen64
	for _, r := range c.Rows {
		n += 2 * binary.MaxVarintLen64
		for _, column := range r.Columns {
			n += 2*binary.MaxVarintLen64 + len(column)
		}
	}
	return n
}

// encode returns the value of the cell; nil: there is nothing to tell.
func (t *committedBatch) encode() []byte {
	if len(t.body) == 0 {
		return nil
	}
	b := binary.AppendUvarint([]byte{committedVersion}, uint64(len(t.places)))
	return append(append(b, t.names...), t.body...)
}

// decodeCommitted decodes the value of the cell. It never panics, whatever the bytes. What it
// cannot decode says nothing.
func decodeCommitted(value []byte) (list []Committed) {
	if len(value) == 0 || len(value) > maxCommittedBytes+1+binary.MaxVarintLen64 || value[0] != committedVersion {
		return nil
	}
	d := decoder{rest: value[1:]}
	var columns []string
	for range d.count(1) {
		columns = append(columns, d.name(maxQualifierBytes))
	}
	for len(d.rest) > 0 && !d.failed {
		c := Committed{StartTS: tso.Timestamp(d.number())}
		c.CommitTS = c.StartTS + tso.Timestamp(d.number())
		if c.StartTS <= 0 || c.CommitTS <= c.StartTS || c.CommitTS > tso.MaxTimestamp {
			return nil
		}
		for range d.count(2) {
			c.Rows = append(c.Rows, d.committedRow(columns))
		}
		list = append(list, c)
	}
	if d.failed {
		return nil
	}
	return list
}

func (d *decoder) committedRow(columns []string) CommittedRow {
	r := CommittedRow{Place: int(min(d.number(), MaxBatchBytes))}
	for range d.count(1) {
		at := d.number()
		if at >= uint64(len(columns)) {
			d.failed, d.rest = true, nil
			return CommittedRow{}
		}
		r.Columns = append(r.Columns, columns[at])
	}
	return r
}

// Overwrites has the client tell of the transaction once it has committed: rows names those rows of
// its entry that need not be read then. It is called at most once, by this client's own commit.
func (w *Append) Overwrites(rows func() []CommittedRow) {
	if w != nil && entryBytes(w.entry) <= partBytes { // else in parts, each of which has other places
		w.overwrites = rows
	}
}

// tell notes that phase two of a transaction is done, for the next row of its stream. The caller
// holds o.mu.
func (o *Owner) tell(w *Append) {
	rows := w.overwrites
	if w.overwrites = nil; rows == nil || len(w.in) == 0 {
		return
	}
	if c := (Committed{w.entry.StartTS, w.commitTS, rows()}); len(c.Rows) > 0 {
		o.stream(w.in[0].Stream).committed.add(c)
	}
}

// takeCommitted takes what is to be told with the next row of a stream; nil: nothing.
func (o *Owner) takeCommitted(id StreamID) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stream(id)
	value := s.committed.encode()
	s.committed = committedBatch{}
	return value
}
