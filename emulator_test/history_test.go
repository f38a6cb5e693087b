package emulator_test

import (
	"strings"
	"sync"

	"github.com/gopercolator/percolator/tso"
)

// The history checks what clients saw. A [history] records every transaction with everything that
// it read, wrote and scanned, when it began and ended, and what its client was told about its
// outcome; [checkHistory] says whether a store that keeps the promises of docs/PROTOCOL.md could
// have answered like that. It does no I/O and knows nothing of how the store works.
//
// What is checked
//
// Timestamps make most of it direct. Every read, whatever became of its transaction later, has to
// equal the newest write that was committed below its snapshot, absence and the completeness of
// scans and of index scans included. Two transactions that wrote one cell, or locked it as
// GetForUpdate does, must not overlap. Timestamps are unique, a commit timestamp is above the start
// timestamp, and who begins after another's commit was acknowledged has the greater start
// timestamp.
//
// Beside that, and without using start timestamps, the dependencies between transactions are
// searched for the cycles that snapshot isolation proscribes, in the terms of Adya ("Weak
// Consistency", 1999) and of Elle (Kingsbury and Alvaro, VLDB 2020):
//
//	G0             write cycle
//	G1a            read of an aborted write
//	G1b            read of a write that its own transaction replaced
//	G1c            cycle of writes and reads of writes
//	G-single       cycle with exactly one anti-dependency
//	G-nonadjacent  cycle in which no two anti-dependencies follow each other
//
// each also with real-time edges. Cycles with adjacent anti-dependencies (write skew, G2-item) are
// legal under snapshot isolation, unless the reads were locking ones: a locking read orders its
// transaction like a write.
//
// Outcomes
//
// What a client was told is not always the truth that it wanted: it may have died, or the outcome
// may be unknown. Such transactions are resolved from what others read, so the writes of a
// transaction must be attributable: a value that nobody else writes to that cell, in a cell that is
// scanned in the end, because scans tell commit timestamps. A definite abort that shows up all the
// same, and an acknowledged commit that does not, are anomalies.
//
// Cost
//
// A recorded operation takes about 32 bytes and the interned value. Checking takes O(n log n) for n
// operations, where a scan counts for all cells that ever were in its range.

// historyCell names a cell of a table.
type historyCell struct{ Table, Row, Column string }

func (c historyCell) String() string { return c.Table + "/" + c.Row + "/" + c.Column }

func compareCells(a, b historyCell) int {
	if n := strings.Compare(a.Table, b.Table); n != 0 {
		return n
	}
	if n := strings.Compare(a.Row, b.Row); n != 0 {
		return n
	}
	return strings.Compare(a.Column, b.Column)
}

type (
	cellID  int32
	valueID int32
)

// absent is the value of a cell that has none.
const absent valueID = 0

// history is a recording. Its methods are safe for concurrent use until it is checked.
type history struct {
	mu     sync.Mutex
	events int64 // begins and ends so far: the order of real time
	txns   []*historyTxn

	cells  map[historyCell]cellID
	names  []historyCell
	values map[string]valueID
	texts  []string

	records []historyRecord
}

// newHistory returns an empty history.
func newHistory() *history {
	return &history{cells: map[historyCell]cellID{}, values: map[string]valueID{}, texts: []string{""}}
}

// historyRecord is a committed write, or the marker of a roll back, that was found in the raw
// tables when everything was over.
type historyRecord struct {
	Cell          historyCell
	Start, Commit tso.Timestamp // equal in a marker
	Marker        bool
}

// Found adds a record of the raw tables. They resolve unknown outcomes, and none of them may belong
// to an aborted transaction.
func (h *history) Found(r historyRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// Begin records that a transaction is about to begin. Call it before the client asks for a start
// timestamp.
func (h *history) Begin(client, kind string) *historyTxn {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events++
	t := &historyTxn{h: h, id: int32(len(h.txns)), Client: client, Kind: kind, began: h.events}
	h.txns = append(h.txns, t)
	return t
}

// Moment is now, for Txn.Since.
func (h *history) Moment() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events++
	return h.events
}

// Len is the number of transactions so far.
func (h *history) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.txns)
}

func (h *history) cell(c historyCell) cellID {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.cells[c]
	if !ok {
		id = cellID(len(h.names))
		h.cells[c] = id
		h.names = append(h.names, c)
	}
	return id
}

func (h *history) value(v []byte) valueID {
	if v == nil {
		return absent
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.values[string(v)]
	if !ok {
		id = valueID(len(h.texts))
		h.values[string(v)] = id
		h.texts = append(h.texts, string(v))
	}
	return id
}
