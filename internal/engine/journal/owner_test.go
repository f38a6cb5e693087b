package journal

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// owned is an owner with a stream of n rows, each with one entry.
func owned(n int) (o *Owner, entries []*Append) {
	o = NewOwner()
	for i := range n {
		e := &model.JournalEntry{StartTS: 1, Rows: []model.JournalName{{Table: "t", Key: "r"}}}
		w := &Append{entry: e}
		entries = append(entries, w)
		o.sent("stream", uint64(i+1), []*part{{entry: e, of: w}})
	}
	return o, entries
}

func low(o *Owner) uint64 { return o.Low()["stream"].Seq }

// The low position is that of the first row that is not settled, in whatever order they are.
func TestLowFollowsTheFirstUnsettledRow(t *testing.T) {
	t.Parallel()
	o, entries := owned(10)
	for _, i := range []int{9, 1, 2, 5, 6, 7, 8} {
		o.RolledBack(entries[i])
	}
	if got := low(o); got != 0 {
		t.Errorf("it moved to %d past an unsettled row", got)
	}
	o.RolledBack(entries[0])
	if got := low(o); got != 4 {
		t.Errorf("it is %d, want 4", got)
	}
	o.RolledBack(entries[4])
	o.RolledBack(entries[3])
	if got := low(o); got != 11 || o.owned != 0 || o.first.Len() != 0 || len(o.streams["stream"].rows) != 0 {
		t.Errorf("it is %d, want 11; %d are owned, %d due", got, o.owned, o.first.Len())
	}
}

// A stream that gets no more rows is forgotten once it is settled and its low position was written.
func TestStreamsThatEndAreForgotten(t *testing.T) {
	t.Parallel()
	o, entries := owned(2)
	o.ended("stream")
	o.RolledBack(entries[0])
	for range 3 {
		o.Low()
	}
	if o.RolledBack(entries[1]); len(o.streams) != 1 || low(o) != 3 {
		t.Error("the last position is never written")
	}
	o.LowLost(map[StreamID]Low{"stream": {Seq: 3}})
	if low(o) != 3 || !o.Owns("stream") {
		t.Error("a position that was lost is not written again")
	}
	if len(o.Low()) != 0 || len(o.streams) != 0 {
		t.Errorf("%d streams are remembered", len(o.streams))
	}
}

// A transaction settles with the last row of its phase two. If one of them failed, it is left to a
// look (J4).
func TestPhaseTwoSettles(t *testing.T) {
	t.Parallel()
	failed := errors.New("unavailable")
	rows := [][]error{{nil, nil}, {nil, failed}, {failed, nil}}
	o, entries := owned(len(rows))
	for i, errs := range rows {
		o.Committed(entries[i], 5, 2, nil)
		o.RowDone(entries[i], errs[0])
		if entries[i].state == entrySettled {
			t.Error("settled while a row is left")
		}
		if o.RowDone(entries[i], errs[1]); (entries[i].state == entrySettled) != (errors.Join(errs...) == nil) {
			t.Errorf("after %v: state %v", errs, entries[i].state)
		}
	}
	if got := low(o); got != 2 {
		t.Errorf("low is %d, want 2", got)
	}
}

// A row is looked at late, then ever more rarely; the one that has been due longest comes first.
func TestRowsAreDueEverMoreRarely(t *testing.T) {
	t.Parallel()
	o, _ := owned(3)
	started := time.Now()
	if due := o.Due(started.Add(FirstLook-time.Second), 10); len(due) != 0 {
		t.Errorf("%d rows are due at once", len(due))
	}
	due := o.Due(started.Add(FirstLook+time.Second), 2)
	if len(due) != 2 || due[0].row.Seq != 1 || due[1].row.Seq != 2 || len(due[0].Open) != 1 {
		t.Fatalf("due are %+v", due)
	}
	o.Looked(due[0], Outcome{})
	o.Looked(due[1], Outcome{Settled: due[1].Open})
	if due := o.Due(started.Add(FirstLook+time.Second), 10); len(due) != 1 || due[0].row.Seq != 3 {
		t.Errorf("then %+v", due)
	}
	if due := o.Due(started.Add(3*FirstLook), 10); len(due) != 1 || due[0].row.Seq != 1 {
		t.Errorf("then %+v", due)
	}
	last := time.Duration(0)
	for looks := range 100 {
		if d := lookAfter(looks); d < last || d > rarestLook {
			t.Errorf("after %d looks a row rests for %v", looks, d)
		} else {
			last = d
		}
	}
}

// An entry that stays unsettled for minutes is appended again, at ever longer intervals, and no
// longer holds the low position; what this process learns of it settles the copy.
func TestCopiesLetTheLowPositionPass(t *testing.T) {
	t.Parallel()
	o, entries := owned(3)
	cell := model.Cell{Table: "t", Row: "r", Column: "c"}
	o.Committed(entries[0], 5, 0, []model.Cell{cell})
	o.RolledBack(entries[1])
	stubborn, started := entries[0], time.Now()
	if o.Again(stubborn, started.Add(againAfter-time.Second)) {
		t.Error("appended again at once")
	}
	if o.Again(entries[2], started.Add(time.Hour)) {
		t.Error("the last row of a stream holds nothing back, and is appended again")
	}
	for copies := 1; copies < 12; copies++ {
		if !o.Again(stubborn, started.Add(againAfter<<min(copies-1, maxDoubled)+time.Minute)) {
			t.Fatalf("not appended again for the %dth time", copies)
		}
		to := &Append{entry: stubborn.entry}
		o.sent("stream", uint64(2*copies+2), []*part{{entry: to.entry, of: to}})
		o.sent("stream", uint64(2*copies+3), []*part{{entry: &model.JournalEntry{}, of: &Append{entry: &model.JournalEntry{}}}})
		o.Copied(stubborn, to)
		if copies == 1 && low(o) != 3 {
			t.Error("the copied entry holds the low position")
		}
		if o.Again(to, started.Add(againAfter<<min(copies, maxDoubled)-time.Second)) {
			t.Errorf("copy %d is appended again as soon as the one before", copies)
		}
		stubborn = to
	}
	o.Cleared(cell, 5, time.Now())
	if stubborn.state != entrySettled || len(o.cells) != 0 {
		t.Error("the end of its notification does not settle the copy")
	}
}

// Beyond MaxOwned a row is only remembered by its number; once it was read and there is room, its
// entries are known.
func TestRowsBeyondTheLimitAreRead(t *testing.T) {
	t.Parallel()
	o, entries := owned(1)
	o.owned += MaxOwned
	e := &model.JournalEntry{StartTS: 2}
	o.sent("stream", 2, []*part{{entry: e, of: &Append{entry: e}}})
	out := Outcome{Left: []LeftRow{leftRow(2, *e)}}
	due := o.Due(time.Now().Add(time.Hour), 10)
	if len(due) != 2 || due[0].Unread() || !due[1].Unread() || !slices.Equal(due[1].Seqs, []uint64{2}) {
		t.Fatalf("due are %+v", due)
	}
	s := o.streams["stream"]
	if o.Looked(due[1], out); s.rows[2] != nil || !slices.Equal(s.unread.spans, []span{{2, 3}}) {
		t.Error("it is remembered although there is no room")
	}
	o.owned -= MaxOwned
	o.RolledBack(entries[0])
	for _, l := range o.Due(time.Now().Add(time.Hour), 10) {
		o.Looked(l, out)
	}
	if s.rows[2] == nil || len(s.unread.spans) > 0 || o.owned != 1 {
		t.Errorf("rows %v are remembered, with %d entries, and %v unread", s.rows, o.owned, s.unread.spans)
	}
	if o.Hurry(); len(o.Hurried) != 1 {
		t.Error("nobody hears of the hurry")
	}
}

func TestNotificationsBeyondMaxOwnedAreNotRemembered(t *testing.T) {
	t.Parallel()
	const more = 10
	o := NewOwner()
	for i := range MaxOwned + more {
		e := &model.JournalEntry{StartTS: 1, Rows: []model.JournalName{{Table: "t", Key: "r", Observed: true}}}
		w := &Append{entry: e}
		o.sent("stream", uint64(i+1), []*part{{entry: e, of: w}})
		o.Committed(w, 2, 0, []model.Cell{{Table: "t", Row: string(rune(i)), Column: "c"}})
	}
	n := 0
	for _, list := range o.cells {
		n += len(list)
	}
	if n > MaxOwned {
		t.Errorf("%d notifications are remembered, want at most %d", n, MaxOwned)
	}
	later := time.Now().Add(FirstLook + time.Minute)
	for due := o.Due(later, 100); len(due) > 0; due = o.Due(later, 100) {
		for _, l := range due {
			o.Looked(l, Outcome{Settled: l.Open}) // all is settled
		}
	}
	if oldest, _ := o.OldestNotified(func(model.Cell) bool { return true }); oldest != 0 || len(o.cells) != 0 {
		t.Errorf("everything is settled, and %d cells still wait, one since %d", len(o.cells), oldest)
	}
}

// Clearing a cell looks once at each transaction that waits for it.
func TestACellOfManyTransactionsIsCleared(t *testing.T) {
	t.Parallel()
	const many = MaxOwned / 16
	o, entries := owned(many)
	c := model.Cell{Table: "t", Row: "r", Column: "c"}
	for _, w := range entries {
		o.Committed(w, 2, 0, []model.Cell{c})
	}
	o.looked = 0
	if o.Cleared(c, 2, time.Now()); low(o) != many+1 || len(o.cells) != 0 {
		t.Errorf("%d are owned", o.owned)
	}
	if o.looked != many {
		t.Errorf("it looked at %d transactions, want %d", o.looked, many)
	}
}

// A copy that is appended while MaxOwned are owned is only remembered by its row, and so are its
// notifications: once everything is settled, none waits.
func TestACopyBeyondMaxOwnedWaitsForNoCell(t *testing.T) {
	t.Parallel()
	o, entries := owned(1)
	cell := model.Cell{Table: "t", Row: "r", Column: "c"}
	o.Committed(entries[0], 5, 0, []model.Cell{cell})
	o.owned += MaxOwned // others
	to := &Append{entry: entries[0].entry}
	o.sent("stream", 2, []*part{{entry: to.entry, of: to}})
	o.Copied(entries[0], to)
	o.owned -= MaxOwned
	for _, l := range o.Due(time.Now().Add(time.Hour), 10) {
		o.Looked(l, Outcome{}) // another process has dealt with it
	}
	if got := low(o); got != 3 || o.owned != 0 {
		t.Fatalf("low is %d, want 3, and %d are owned", got, o.owned)
	}
	if oldest, _ := o.OldestNotified(func(model.Cell) bool { return true }); oldest != 0 || len(o.cells) != 0 {
		t.Errorf("everything is settled, and %d cells still wait, one since %d", len(o.cells), oldest)
	}
}

// A notification that phase two writes after the cell was cleared, or while it is, is not settled
// by that (J4).
func TestWhatPhaseTwoWritesLaterIsNotCleared(t *testing.T) {
	t.Parallel()
	o, entries := owned(1)
	cell := model.Cell{Table: "t", Row: "r", Column: "c"}
	o.Committed(entries[0], 5, 1, nil)
	o.Cleared(cell, 5, time.Now()) // as somebody else has rolled the row forward
	asked := time.Now().Add(-time.Nanosecond)
	o.RowDone(entries[0], nil, cell)
	if o.Cleared(cell, 5, asked); entries[0].state == entrySettled || len(o.cells) != 1 {
		t.Error("settled by what was cleared before phase two has written the notification")
	}
	if o.Cleared(cell, 5, time.Now()); entries[0].state != entrySettled || len(o.cells) != 0 {
		t.Error("not settled when the notification is cleared")
	}
}
