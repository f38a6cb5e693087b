package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Annexes are what an operator drops: tables, and a column of one that stays. Until then, and as
// long as they try, transactions write there and to rows elsewhere that are not read before the
// end: they have to be whole there, whichever is their primary.
const (
	annexes     = "annex"
	desks       = "desks"
	inspector   = "inspect" // observes the first annex
	seldomAnnex = 40        // a session uses one once in so many times
	oftenAnnex  = 8         // and when it is being dropped, or will be at once
)

// Drop is a drop of a table, or of a column. Its methods may be called concurrently.
type Drop struct {
	Table  string
	Column string // "": the table

	mu    sync.Mutex
	stage dropStage
	back  bool // the column has been declared anew
	anew  int  // acknowledged transactions that have put there since

	returned tso.Timestamp // no later than when it was declared anew; 0: it was not
}

type dropStage uint8

const (
	dropPending dropStage = iota
	dropSoon
	dropWaits
	dropUnderWay
	dropEnded
)

// AddAnnexes adds to a schema what comes to be dropped, in this order of three, and has sessions
// use it.
func (w *Workload) AddAnnexes(s *percolator.Schema, order []int) {
	all := []*Drop{{Table: annexes + "0"}, {Table: annexes + "1"}, {Table: desks, Column: annexes}}
	for _, i := range order {
		w.drops = append(w.drops, all[i])
	}
	for _, name := range []string{all[0].Table, all[1].Table} {
		s.Tables = append(s.Tables, percolator.Table{Name: name, Indexes: []percolator.Index{{Name: "tag", Column: "tag"}}})
	}
	s.Tables[len(s.Tables)-2].Observed = []string{"part"}
	s.Tables = append(s.Tables, percolator.Table{Name: desks, Columns: []percolator.ColumnSchema{{Name: "top"}, {Name: annexes}}})
}

// Drops is how many tables and columns there are to be dropped.
const Drops = 3

// NextDrop is the drop that is under way, or the next one; nil: none is left.
func (w *Workload) NextDrop() *Drop {
	for _, d := range w.drops {
		if !d.Ended() {
			return d
		}
	}
	return nil
}

// Dropped lists the drops that have ended.
func (w *Workload) Dropped() (ended []*Drop) {
	for _, d := range w.drops {
		if d.Ended() {
			ended = append(ended, d)
		}
	}
	return ended
}

// String names what is dropped.
func (d *Drop) String() string {
	if d.Column != "" {
		return d.Table + ":" + d.Column
	}
	return d.Table
}

// From takes what is dropped from a schema.
func (d *Drop) From(s *percolator.Schema) {
	if d.Column == "" {
		s.Tables = slices.DeleteFunc(s.Tables, func(t percolator.Table) bool { return t.Name == d.Table })
		return
	}
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Name == d.Table {
			t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c percolator.ColumnSchema) bool { return c.Name == d.Column })
		}
	}
}

// Soon says that an operator is about to drop it.
func (d *Drop) Soon() { d.comeTo(dropSoon) }

// nears tells whether the drop is about to begin, or has begun.
func (d *Drop) nears() bool {
	at := d.at()
	return at == dropSoon || at == dropUnderWay
}

// Wait says that holds are in its way: sessions take no new ones until it has begun.
func (d *Drop) Wait() { d.comeTo(dropWaits) }

// dropWaits tells whether a drop waits for holds to be released.
func (w *Workload) dropWaits() bool {
	d := w.NextDrop()
	return d != nil && d.at() == dropWaits || dropStage(w.cardsAt.Load()) == dropWaits
}

// Begin says that an operator begins to drop it.
func (d *Drop) Begin() { d.comeTo(dropUnderWay) }

// End says that it is gone.
func (d *Drop) End() { d.comeTo(dropEnded) }

func (d *Drop) comeTo(s dropStage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stage = max(d.stage, s)
}

func (d *Drop) at() dropStage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stage
}

// Pending reports whether no operator has begun.
func (d *Drop) Pending() bool { return d.at() < dropUnderWay }

// Ended reports whether it is gone.
func (d *Drop) Ended() bool { return d.at() == dropEnded }

// Declare declares a column anew that was dropped, unless the schema has it.
func (d *Drop) Declare(s *percolator.Schema) {
	t := &s.Tables[slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == d.Table })]
	if !slices.ContainsFunc(t.Columns, func(c percolator.ColumnSchema) bool { return c.Name == d.Column }) {
		t.Columns = append(t.Columns, percolator.ColumnSchema{Name: d.Column})
	}
}

// ReturnsAfter says that a column that was dropped is about to be declared anew, again unless it is
// the first call.
func (d *Drop) ReturnsAfter(at tso.Timestamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.returned = cmp.Or(d.returned, at)
}

// Returned is no later than when the column was declared anew; 0: it was not.
func (d *Drop) Returned() tso.Timestamp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.returned
}

// ComeBack says that a column that was dropped is declared anew, for good.
func (d *Drop) ComeBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.back = true
}

// Back reports whether a column that was dropped is declared anew; used: and has values.
func (d *Drop) Back() (back, used bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.back, d.anew >= usedAnew
}

// usedAnew is how many transactions put there until a column counts as used.
const usedAnew = 3

func (d *Drop) putAnew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.anew++
}

// Anew begins the names of rows that sessions write when a column has come back.
const Anew = "anew"

// someAnnex is what the session writes to next; nil: it does something else.
func (s *Session) someAnnex() *Drop {
	for _, d := range s.drops {
		often := seldomAnnex * len(s.drops)
		back, used := d.Back()
		switch {
		case d.nears(), back && !used:
			often = oftenAnnex
		case d.Ended() && !back:
			continue
		}
		if s.Rand.IntN(often) == 0 {
			return d
		}
	}
	return nil
}

// annex writes a row of what comes to be dropped, or has come back, and rows that stay.
func (s *Session) annex(ctx context.Context, d *Drop) {
	prefix := annexes
	back, _ := d.Back()
	if back {
		prefix = Anew
	}
	acknowledged := func() {
		if back {
			d.putAnew()
		}
		if s.Perish != nil && d.nears() && s.Rand.IntN(2) == 0 {
			s.Perish(s.Name)
		}
	}
	s.transact(ctx, options{kind: "annex", acknowledged: acknowledged}, func(ctx context.Context, a *attempt) error {
		row, v := fmt.Sprintf("%s%08d", prefix, a.id), a.unique("")
		cells := []percolator.Cell{cell(d.Table, row, "part"), cell(d.Table, row, "tag")}
		if d.Column != "" {
			cells = []percolator.Cell{cell(d.Table, row, d.Column), cell(d.Table, row, "top")}
		}
		stay := []percolator.Cell{cell(sheets, row, "s"), cell(sheets, row+"+", "s")}
		if s.Rand.IntN(4) > 0 { // the first is the primary
			cells = append(cells, stay...)
		} else {
			cells = append(stay, cells...)
		}
		for _, c := range cells {
			if err := a.set(c, v); err != nil {
				return err
			}
		}
		if s.Rand.IntN(2) == 0 {
			wait(ctx, time.Duration(s.Rand.Int64N(int64(time.Second))))
		}
		return nil
	})
}

// observeAnnex registers the observer of an annex as long as a schema has it.
func (w *Workload) observeAnnex(r *observers.Registry, worker string, s *percolator.Schema) {
	if !has(s, annexes+"0") {
		return
	}
	w.observe(r, worker, inspector, annexes+"0", "part", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.set(cell(sheets, ch.Cell.Row+"-", "s"), a.unique(""))
	})
}

// checkAnnexes reads what is left of them, and what has come back.
func (r Reader) checkAnnexes(ctx context.Context, w *Workload, s *percolator.Schema) error {
	for _, d := range w.drops {
		if back, _ := d.Back(); back {
			if _, err := r.scan(ctx, d.Table, Anew, Anew+"~", d.Column); err != nil {
				return err
			}
		}
	}
	for _, t := range s.Tables {
		if columns, ok := annexColumns(t.Name); ok {
			if _, err := r.scan(ctx, t.Name, "", "", columns...); err != nil {
				return err
			}
		}
	}
	return nil
}

// annexColumns are the columns of a table all of whose writers are recorded, nil for all; ok: it is
// one of which something comes to be dropped.
func annexColumns(table string) (columns []string, ok bool) {
	switch table {
	case desks:
		return []string{"top"}, true
	case annexes + "0", annexes + "1":
		return nil, true
	}
	return nil, false
}
