package history

import (
	"cmp"
	"encoding/gob"
	"fmt"
	"io"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// saved is a recording on its way to another process.
type saved struct {
	Cells   []Cell
	Texts   []string
	Txns    []savedTxn
	Calls   []savedCall
	Watched []savedWatched
	Records []Record
	Judged  []Anomaly
}

type savedTxn struct {
	Client, Kind    string
	Start, Commit   tso.Timestamp
	Outcome         Outcome
	Began, Ended    int64
	Placed, Bounded bool
	LockReads       bool
	Deletes         bool
	DeletesUpTo     tso.Timestamp
	Ops             []savedOp
	Runs            []Run
	Weak            []cellID
	Broken          []string
	Adds, Sums      []savedAmount
	Exports         []savedExport
}

type savedOp struct {
	Kind   opKind
	Cell   cellID
	Value  valueID
	Commit tso.Timestamp
	Scan   *savedScan
}

type savedScan struct {
	Table, From, To string
	Columns         []string
	Index           bool
	Entries         []savedOp
}

type savedAmount struct {
	Total string
	N     int64
}

type savedExport struct {
	Partition string
	Seq       int
	What      string
}

type savedCall struct {
	At        int64
	Partition string
	Entries   []Delivery
}

type savedWatched struct {
	Watcher  string
	Columns  []Column
	Changes  []WatchedChange
	Position tso.Timestamp
}

// Save writes the recording for Add. Recording has ended.
func (h *Recording) Save(w io.Writer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := saved{Cells: h.names, Texts: h.texts, Records: h.records, Judged: h.judged}
	for _, t := range h.txns {
		s.Txns = append(s.Txns, t.save())
	}
	for _, c := range h.calls {
		s.Calls = append(s.Calls, savedCall{c.at, c.partition, c.entries})
	}
	for _, w := range h.watched {
		s.Watched = append(s.Watched, savedWatched{w.watcher, w.columns, w.changes, w.position})
	}
	return gob.NewEncoder(w).Encode(s)
}

func (t *Txn) save() savedTxn {
	s := savedTxn{
		Client: t.Client, Kind: t.Kind, Start: t.start, Commit: t.commit, Outcome: t.outcome, Began: t.began, Ended: t.ended,
		Placed: t.placed, Bounded: t.bounded, LockReads: t.lockReads, Deletes: t.deletes.limited, DeletesUpTo: t.deletes.upTo, Runs: t.runs, Weak: t.weak, Broken: t.broken,
	}
	for _, o := range t.ops {
		to := savedOp{Kind: o.kind, Cell: o.cell, Value: o.value, Commit: o.commit}
		if o.scan != nil {
			to.Scan = &savedScan{Table: o.scan.table, From: o.scan.from, To: o.scan.to, Columns: o.scan.columns, Index: o.scan.index}
			for _, e := range o.scan.entries {
				to.Scan.Entries = append(to.Scan.Entries, savedOp{Cell: e.cell, Value: e.value, Commit: e.commit})
			}
		}
		s.Ops = append(s.Ops, to)
	}
	if q := t.queued; q != nil {
		for _, a := range q.adds {
			s.Adds = append(s.Adds, savedAmount{a.total, a.n})
		}
		for _, a := range q.sums {
			s.Sums = append(s.Sums, savedAmount{a.total, a.n})
		}
		for _, e := range q.exports {
			s.Exports = append(s.Exports, savedExport{e.partition, e.seq, e.what})
		}
	}
	return s
}

// Add adds a recording that was saved, of one that counted together with h.
func (h *Recording) Add(r io.Reader) error {
	var s saved
	if err := gob.NewDecoder(r).Decode(&s); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in := joining{h: h}
	for _, c := range s.Cells {
		in.cells = append(in.cells, h.cell(c))
	}
	for i, text := range s.Texts {
		id := absent
		if i > 0 {
			id = h.value([]byte(text))
		}
		in.values = append(in.values, id)
	}
	for _, t := range s.Txns {
		h.ended += int64(min(t.Ended, 1))
		h.begin(in.txn(t))
	}
	for _, c := range s.Calls {
		h.calls = append(h.calls, call{c.At, c.Partition, c.Entries})
	}
	slices.SortStableFunc(h.calls, func(a, b call) int { return cmp.Compare(a.at, b.at) })
	for _, w := range s.Watched {
		h.watched = append(h.watched, watched{w.Watcher, w.Columns, w.Changes, w.Position})
	}
	h.records = append(h.records, s.Records...)
	h.judged = append(h.judged, s.Judged...)
	return nil
}

// joining is what the cells and values of a saved recording have become.
type joining struct {
	h      *Recording
	cells  []cellID
	values []valueID
}

func (in joining) txn(s savedTxn) *Txn {
	t := &Txn{
		Client: s.Client, Kind: s.Kind, start: s.Start, commit: s.Commit, outcome: s.Outcome, began: s.Began, ended: s.Ended,
		placed: s.Placed, bounded: s.Bounded, lockReads: s.LockReads, deletes: deletionLimit{s.Deletes, s.DeletesUpTo}, broken: s.Broken,
	}
	for _, o := range s.Ops {
		t.ops = append(t.ops, in.op(o))
	}
	for _, r := range s.Runs {
		r.of = in.h.cell(r.Cell)
		t.runs = append(t.runs, r)
	}
	for _, c := range s.Weak {
		t.weak = append(t.weak, in.cells[c])
	}
	if len(s.Adds)+len(s.Sums)+len(s.Exports) > 0 {
		t.queued = &queued{}
	}
	for _, a := range s.Adds {
		t.queued.adds = append(t.queued.adds, amount{a.Total, a.N})
	}
	for _, a := range s.Sums {
		t.queued.sums = append(t.queued.sums, amount{a.Total, a.N})
	}
	for _, e := range s.Exports {
		t.queued.exports = append(t.queued.exports, export{e.Partition, e.Seq, e.What})
	}
	return t
}

func (in joining) op(s savedOp) op {
	if s.Scan == nil {
		return op{kind: s.Kind, cell: in.cells[s.Cell], value: in.values[s.Value], commit: s.Commit}
	}
	sc := &scan{table: s.Scan.Table, from: s.Scan.From, to: s.Scan.To, columns: s.Scan.Columns, index: s.Scan.Index}
	for _, e := range s.Scan.Entries {
		sc.entries = append(sc.entries, entry{in.cells[e.Cell], in.values[e.Value], e.Commit})
	}
	return op{kind: s.Kind, scan: sc}
}
