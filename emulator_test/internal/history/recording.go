package history

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gopercolator/percolator/tso"
)

// Cell names a cell of a table.
type Cell struct{ Table, Row, Column string }

func (c Cell) String() string { return c.Table + "/" + c.Row + "/" + c.Column }

// Compare orders cells as scans do: by table, row and column.
func (c Cell) Compare(d Cell) int {
	if n := strings.Compare(c.Table, d.Table); n != 0 {
		return n
	}
	if n := strings.Compare(c.Row, d.Row); n != 0 {
		return n
	}
	return strings.Compare(c.Column, d.Column)
}

type (
	cellID  int32
	valueID int32
)

// absent is the value of a cell that has none.
const absent valueID = 0

// Recording is a history. Its methods are safe for concurrent use until it is checked.
type Recording struct {
	mu     sync.Mutex
	events *atomic.Int64 // begins and ends so far: the order of real time
	begun  int64         // transactions so far
	ended  int64
	txns   []*Txn // all that is not forgotten

	cells  map[Cell]cellID
	names  []Cell
	values map[string]valueID
	texts  []string

	records []Record
	judged  []Anomaly
	calls   []call
	imports []Import
	watched []watched
	dropped map[pendingRun]tso.Timestamp
	spared  map[Cell]bool // acknowledgments that operators have committed
}

// New returns an empty history.
func New() *Recording { return Counting(new(atomic.Int64)) }

// Counting is New for one of several recordings, of several processes it may be, that count begins
// and ends together: so Add can join them.
func Counting(events *atomic.Int64) *Recording {
	return &Recording{events: events, cells: map[Cell]cellID{}, values: map[string]valueID{}, texts: []string{""}}
}

// Record is a committed write, or the marker of a roll back, that was found in the raw
// tables when everything was over.
type Record struct {
	Cell          Cell
	Start, Commit tso.Timestamp // equal in a marker
	Marker        bool
}

// Found adds a record of the raw tables. They resolve unknown outcomes, and none of them may belong
// to an aborted transaction.
func (h *Recording) Found(r Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// Judged adds what another judge has found, for the report.
func (h *Recording) Judged(found ...Anomaly) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judged = append(h.judged, found...)
}

// Drops records that an operator is about to abandon the changes of a cell up to a timestamp, as if
// the observer had run for them. All that this leaves is a record of its acknowledgment, in a cell.
func (h *Recording) Drops(observer string, c Cell, through tso.Timestamp, acknowledgment Cell) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped == nil {
		h.dropped, h.spared = map[pendingRun]tso.Timestamp{}, map[Cell]bool{}
	}
	run := pendingRun{observer, c}
	h.dropped[run] = max(h.dropped[run], through)
	h.spared[acknowledgment] = true
}

// Begin records that a transaction is about to begin. Call it before the client asks for a start
// timestamp.
func (h *Recording) Begin(client, kind string) *Txn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begin(&Txn{Client: client, Kind: kind, began: h.events.Add(1)})
}

func (h *Recording) begin(t *Txn) *Txn {
	h.begun++
	t.h, t.id, t.number = h, int32(len(h.txns)), h.begun
	h.txns = append(h.txns, t)
	return t
}

// Moment is now, for Txn.Since.
func (h *Recording) Moment() int64 {
	return h.events.Add(1)
}

// Len is the number of transactions so far, forgotten ones included.
func (h *Recording) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int(h.begun)
}

// cell numbers a name. The caller holds the mutex, as for value.
func (h *Recording) cell(c Cell) cellID {
	id, ok := h.cells[c]
	if !ok {
		id = cellID(len(h.names))
		h.cells[c] = id
		h.names = append(h.names, c)
	}
	return id
}

func (h *Recording) value(v []byte) valueID {
	if v == nil {
		return absent
	}
	id, ok := h.values[string(v)]
	if !ok {
		id = valueID(len(h.texts))
		h.values[string(v)] = id
		h.texts = append(h.texts, string(v))
	}
	return id
}
