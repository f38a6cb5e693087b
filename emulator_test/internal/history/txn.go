package history

import (
	"cmp"
	"fmt"

	"github.com/gopercolator/percolator/tso"
)

// Outcome is what the client was told about a transaction.
type Outcome uint8

// The outcomes.
const (
	Unknown   Outcome = iota // also of dead clients, and of transactions that others commit
	Committed                // acknowledged
	Aborted                  // definitely
)

func (o Outcome) String() string { return [...]string{"unknown", "committed", "aborted"}[o] }

// Txn is one transaction, or one snapshot that was only read. It is recorded by one goroutine.
type Txn struct {
	h            *Recording
	id           int32 // index in the recording, until something is forgotten
	number       int64 // for people
	Client, Kind string

	start, commit tso.Timestamp
	outcome       Outcome
	began, ended  int64
	placed        bool // its start timestamp says nothing about when it began
	bounded       bool // though it is not older than began says
	lockReads     bool

	ops    []op
	runs   []Run // several of a batch observer
	weak   []cellID
	broken []string
	queued *queued // nil of most

	deletes deletionLimit

	exported []string // observers, of an export
	due      map[pendingRun]bool

	verdict
}

// Run says of which observer a transaction is a run, and for which change.
type Run struct {
	Observer string
	Cell     Cell
	Change   tso.Timestamp // commit timestamp of the change; of a weak notification 0
	Weak     bool
	of       cellID // Cell, set by Observes
}

type opKind uint8

const (
	opRead opKind = iota
	opPresent
	opPut
	opDelete
	opLock
	opScan
)

type op struct {
	kind   opKind
	cell   cellID
	value  valueID
	commit tso.Timestamp // of what was read, if the client was told
	scan   *scan
}

// scan is a range that was read as a whole.
type scan struct {
	table    string
	from, to string   // rows, or values of an index scan; an empty to has no end
	columns  []string // none: all
	index    bool     // cells of columns[0] with values between from and to, by value
	entries  []entry
}

type entry struct {
	cell   cellID
	value  valueID
	commit tso.Timestamp
}

// Since says that the transaction may have begun as early as at a moment before Begin.
func (t *Txn) Since(moment int64) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.began = moment
	t.floor = nil
}

// Started records the start timestamp.
func (t *Txn) Started(ts tso.Timestamp) { t.startedAt(ts, false) }

// StartedAt records a start timestamp that was chosen, or asked for, before the transaction began:
// of a snapshot of the past, and of a blind transaction.
func (t *Txn) StartedAt(ts tso.Timestamp) { t.startedAt(ts, true) }

// StartedSince is StartedAt of a snapshot whose timestamp was asked for after a moment: it contains
// all that had been acknowledged by then.
func (t *Txn) StartedSince(ts tso.Timestamp, moment int64) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.start, t.placed, t.bounded = ts, true, true
	t.began, t.floor = moment, nil
}

func (t *Txn) startedAt(ts tso.Timestamp, placed bool) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.start, t.placed = ts, placed
}

// LockReads says that the transaction conflicts from here on with the writers of all that it reads,
// absence in scans excepted.
func (t *Txn) LockReads() {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.lockReads = true
}

// Read records what Get said: nil for absence.
func (t *Txn) Read(c Cell, value []byte) { t.add(opRead, c, value, 0) }

// ReadAt is Read of a client that was told when the value was committed.
func (t *Txn) ReadAt(c Cell, value []byte, commit tso.Timestamp) { t.add(opRead, c, value, commit) }

// Present records that the transaction was told that the cell has a value in its snapshot, though
// not which.
func (t *Txn) Present(c Cell) { t.add(opPresent, c, nil, 0) }

// Put records a write.
func (t *Txn) Put(c Cell, value []byte) {
	if value == nil {
		value = []byte{}
	}
	t.add(opPut, c, value, 0)
}

// Delete records a deletion.
func (t *Txn) Delete(c Cell) { t.add(opDelete, c, nil, 0) }

// Lock records that the transaction conflicts with the cell's writers from here on.
func (t *Txn) Lock(c Cell) { t.add(opLock, c, nil, 0) }

func (t *Txn) add(kind opKind, c Cell, value []byte, commit tso.Timestamp) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	o := op{kind: kind, cell: t.h.cell(c), value: t.h.value(value), commit: commit}
	t.ops = append(t.ops, o)
	if kind == opRead && t.lockReads {
		t.ops = append(t.ops, op{kind: opLock, cell: o.cell})
	}
}

// Entry is one entry of a scan.
type Entry struct {
	Cell   Cell
	Value  []byte
	Commit tso.Timestamp // 0 where it is not known
}

// Scan records a scan of the rows from ≤ row < to that was read to its end; an empty to has no
// end, no columns are all columns.
func (t *Txn) Scan(table, from, to string, columns []string, entries []Entry) {
	t.addScan(scan{table: table, from: from, to: to, columns: columns}, entries)
}

// IndexScan records a scan of an index over a column: the cells whose values lie between from and
// to, in the order of values.
func (t *Txn) IndexScan(table, column, from, to string, entries []Entry) {
	t.addScan(scan{table: table, from: from, to: to, columns: []string{column}, index: true}, entries)
}

func (t *Txn) addScan(s scan, entries []Entry) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	s.entries = make([]entry, len(entries))
	for i, e := range entries {
		s.entries[i] = entry{t.h.cell(e.Cell), t.h.value(e.Value), e.Commit}
	}
	t.ops = append(t.ops, op{kind: opScan, scan: &s})
	for _, e := range s.entries {
		if t.lockReads {
			t.ops = append(t.ops, op{kind: opLock, cell: e.cell})
		}
	}
}

// Observes makes the transaction a run of an observer, which others began and will commit.
// If it commits, it has acknowledged the change. A run of a batch observer observes several.
func (t *Txn) Observes(r Run) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	r.of = t.h.cell(r.Cell)
	t.runs, t.began = append(t.runs, r), 0
	if !r.Weak {
		acknowledgment := Cell{r.Cell.Table, r.Cell.Row, "acknowledgment of " + r.Observer + " on " + r.Cell.Column}
		t.ops = append(t.ops, op{kind: opLock, cell: t.h.cell(acknowledgment)})
	}
}

// Notifies records a weak notification.
func (t *Txn) Notifies(c Cell) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.weak = append(t.weak, t.h.cell(c))
}

// Broken records that what the transaction read contradicts an invariant of the application.
func (t *Txn) Broken(format string, args ...any) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.broken = append(t.broken, fmt.Sprintf(format, args...))
}

// Judged adds what another judge has found in what the transaction read.
func (t *Txn) Judged(found ...Anomaly) {
	for _, a := range found {
		t.h.Judged(Anomaly{Kind: a.Kind, Text: fmt.Sprintf("%s: %s", t, a.Text)})
	}
}

// End records the outcome, as soon as the client knows it. commit is the commit timestamp of a
// transaction that wrote something and is acknowledged, else 0.
func (t *Txn) End(o Outcome, commit tso.Timestamp) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.h.ended++
	t.ended, t.outcome, t.commit = t.h.events.Add(1), o, commit
}

// Outcome is what End recorded.
func (t *Txn) Outcome() Outcome { return t.outcome }

func (t *Txn) String() string {
	s := fmt.Sprintf("T%d (%s by %s, start %d", t.number, t.Kind, t.Client, t.start)
	if commit := cmp.Or(t.commit, t.at); commit != 0 {
		s += fmt.Sprintf(", commit %d", commit)
	}
	return s + ", " + t.outcome.String() + ")"
}
