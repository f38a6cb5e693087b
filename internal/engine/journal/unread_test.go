package journal

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// However many rows are unsettled, and whichever of them settle, beyond the limit they are numbers
// in a few spans; the first of these begins at the first that is unsettled (J4).
func TestUnreadRowsAreAFewSpans(t *testing.T) {
	t.Parallel()
	const rows, limit = 2_000_000, 100
	o := NewOwner()
	o.Limit(limit)
	e := &model.JournalEntry{StartTS: 1, Rows: make([]model.JournalName, 1)}
	for seq := range uint64(rows) {
		o.sent("s", seq+1, []*part{{entry: e, of: &Append{entry: e}}})
	}
	s := o.streams["s"]
	want := func(what string, unsettled int, low uint64, spans int) {
		t.Helper()
		if n := len(s.unread.spans); n > spans || len(s.unread.batches) > maxBatches || len(s.rows) > limit {
			t.Errorf("%s: %d spans, want at most %d; %d batches, %d rows", what, n, spans, len(s.unread.batches), len(s.rows))
		}
		if u := o.Unsettled(); u.Rows < unsettled || s.first() != low {
			t.Errorf("%s: %d rows are unsettled, want at least %d; low is %d, want %d", what, u.Rows, unsettled, s.first(), low)
		}
	}
	want("nothing is settled", rows, 1, 1)
	later := time.Now().Add(time.Hour)
	settle := func(pieces int, settled func(seq uint64) bool) {
		for range pieces {
			var out Outcome
			due := o.Due(later, 1)
			if len(due) == 0 { // a pass has ended
				continue
			}
			d := due[0]
			for _, seq := range d.Seqs {
				if !settled(seq) {
					out.Left = append(out.Left, leftRow(seq, *e))
				}
			}
			if d.row != nil {
				out.Settled = d.Open
			} else if len(d.Seqs) > pieceRows {
				t.Fatalf("a piece of %d rows", len(d.Seqs))
			}
			o.Looked(d, out)
		}
	}
	settle(limit, nil) // the remembered ones
	o.Limit(0)
	want("those are settled that are remembered", rows-limit, limit+1, 1)
	settle(1000, func(seq uint64) bool { return seq%2 == 0 })
	want("every second one is settled", rows-limit-1000*pieceRows/2, limit+1, maxSpans)
	for o.streams["s"].unread.spans.size() > 0 {
		later = later.Add(time.Hour)
		settle(1, func(uint64) bool { return true })
	}
	want("all are settled", 0, rows+1, 0)
}

// What is called beside commits, under their lock, visits none of the remembered rows but those
// that a heap compares a new one with.
func TestNothingWalksThroughAllRows(t *testing.T) {
	t.Parallel()
	const rows = 4096
	o := NewOwner()
	o.Limit(rows)
	for i := range 2 * rows {
		e := &model.JournalEntry{StartTS: 1, Rows: make([]model.JournalName, 1)}
		w := &Append{entry: e}
		o.sent("s", uint64(i+1), []*part{{entry: e, of: w}})
		o.Committed(w, 2, 0, []model.Cell{{Table: "t", Row: strconv.Itoa(i), Column: "c"}})
		o.Found(w, Backlog{3, 4, 5}, false)
	}
	o.Low()
	s := o.streams["s"]
	for seq := range s.rows {
		s.rows[seq] = nil
	}
	for c := range o.cells {
		o.cells[c] = nil
	}
	left := unreachable(&o.first) + unreachable(&o.noticed.Heap) + unreachable(&o.started.Heap) + unreachable(&s.order.Heap)
	for i := range o.found {
		left += unreachable(&o.found[i].Heap)
	}
	for _, e := range o.notifying {
		left += unreachable(&e.Heap)
	}
	if left > 8*13 {
		t.Fatalf("%d items are left to visit", left)
	}
	columns := 0
	takes := func(model.Cell) bool { columns++; return true }
	o.Limit(0)
	o.sent("s", 2*rows+1, nil)
	o.Hurry()
	if oldest, taken := o.OldestNotified(takes); oldest != 2 || taken != 2 || columns != 1 {
		t.Errorf("the oldest notifications are of %d and %d, and %d columns were visited", oldest, taken, columns)
	}
	if u := o.Unsettled(); u != (Unsettled{Rows: 2*rows + 1, Oldest: 1, Behind: 2*rows + 1, Backlog: Backlog{3, 4, 5}}) {
		t.Errorf("unsettled are %+v", u)
	}
	if low := o.Low(); len(low) != 0 || o.Appended() != 2*rows {
		t.Errorf("low has moved to %v, and %d rows were appended", low, o.Appended())
	}
}

// unreachable has whoever visits an item of a heap panic, but for the first and those that the next
// one is compared with. It returns how many these are.
func unreachable[T interface {
	comparable
	ordered.Item[T]
}](h *ordered.Heap[T]) (left int) {
	all := h.All()
	keep := []int{0}
	for at := len(all); at > 0; {
		at = (at - 1) / 2
		keep = append(keep, at)
	}
	var none T
	for at := range all {
		if slices.Contains(keep, at) {
			left++
		} else {
			all[at] = none
		}
	}
	return left
}
