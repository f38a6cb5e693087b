package journal

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

var histories = flag.Int("histories", 3, "how many TestWhatIsUnsettledIsNotForgotten makes")

// history is an owner with a small limit, and what is true of the rows of its streams: looks find
// it out.
type history struct {
	*testing.T
	*rand.Rand
	o     *Owner
	limit int
	next  map[StreamID]uint64
	rows  map[place]*truth // acknowledged, but those that the owner may have forgotten
	open  map[place]bool   // lost rows, and those of which an entry was copied that may have locks
	looks []DueRow         // in flight
}

// place is a row of a stream.
type place struct {
	StreamID
	seq uint64
}

// truth is a row.
type truth struct {
	entries []*entryTruth
	looked  time.Time // last, or appended
	tried   bool      // a look has succeeded, or failed
}

type entryTruth struct {
	*Append
	settled  bool // in the tables, or copied
	unlocked bool // in the tables
}

func (r *truth) settled() bool {
	return !slices.ContainsFunc(r.entries, func(e *entryTruth) bool { return !e.settled })
}

// Whatever happens in whatever order: no unsettled row is forgotten, and low passes none (J4); what
// it passes with locks is listed beside it (J12);
// gauges say what a walk through everything finds; memory is bounded; every row is looked at soon
// after it was appended, and again and again; and all is settled in the end.
func TestWhatIsUnsettledIsNotForgotten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(18, seed))
				h := &history{T: t, Rand: r, o: NewOwner(), limit: 1 + r.IntN(60), next: map[StreamID]uint64{"a": 1}, rows: map[place]*truth{}, open: map[place]bool{}}
				if r.IntN(2) == 0 {
					h.next["b"] = 1
				}
				h.o.Limit(h.limit)
				for range 1200 {
					h.step()
					h.check()
				}
				h.settleAll()
			})
		})
	}
}

// step does something at random.
func (h *history) step() {
	switch h.IntN(16) {
	case 0, 1, 2, 3:
		for range 1 + h.IntN(8) {
			h.append()
		}
	case 4: // the number is lost
		id := h.stream()
		h.o.lost(id, h.next[id])
		h.open[place{id, h.next[id]}] = true
		h.next[id]++
	case 5, 6:
		for range h.IntN(12) {
			if e := h.any(); e != nil {
				h.settle(e)
			}
		}
	case 7:
		if e := h.any(); e != nil {
			e.unlocked = e.unlocked || h.IntN(3) == 0
			h.o.Found(e.Append, h.backlog(), e.unlocked && h.IntN(2) == 0)
		}
	case 8:
		if h.IntN(4) == 0 {
			h.hurry()
		}
	case 9, 10, 11:
		h.look(1+h.IntN(20), true)
	case 12:
		if e := h.any(); e != nil && h.o.Again(e.Append, time.Now().Add(time.Hour)) {
			h.copy(e)
		}
	case 13:
		time.Sleep(time.Duration(h.IntN(3000)) * time.Millisecond)
	case 14:
		time.Sleep(time.Duration(h.IntN(60)) * time.Second)
	case 15:
		h.low()
	}
}

// low has positions written: some of them may not arrive.
func (h *history) low() {
	h.Helper()
	moved := h.o.Low()
	for id, low := range moved {
		for at := range h.open {
			if at.StreamID == id && at.seq < low.Seq && !low.Open.Contains(at.seq) {
				h.Fatalf("row %v may hold locks, and is not among those that are open below %d: %v", at, low.Seq, low.Open)
			}
		}
		if n := len(low.Open.spans); n > maxOpen {
			h.Fatalf("%d spans are open", n)
		}
	}
	if h.IntN(3) == 0 {
		h.o.LowLost(moved)
	}
}

// backlog is something that a look has found; 0: nothing.
func (h *history) backlog() Backlog {
	return Backlog{tso.Timestamp(h.IntN(50)), tso.Timestamp(h.IntN(50)), tso.Timestamp(h.IntN(50))}
}

// append appends a row of some entries.
func (h *history) append() {
	var entries []*Append
	for range 1 + h.IntN(3) {
		e := &model.JournalEntry{StartTS: tso.Timestamp(1 + h.IntN(1000)), Rows: make([]model.JournalName, h.IntN(40))}
		if h.IntN(4) > 0 {
			e.Primary = model.Cell{Table: "t", Row: "p", Column: "a"}
		}
		entries = append(entries, &Append{entry: e})
	}
	for _, e := range h.sent(entries...).entries {
		if h.IntN(2) == 0 {
			cell := model.Cell{Table: "t", Row: fmt.Sprint(h.IntN(5)), Column: []string{"a", "b"}[h.IntN(2)]}
			rows := h.IntN(2)
			h.o.Committed(e.Append, tso.Timestamp(1+h.IntN(1000)), rows, []model.Cell{cell})
			e.unlocked = e.unlocked || rows == 0
		}
	}
}

func (h *history) sent(entries ...*Append) *truth {
	id, r := h.stream(), &truth{looked: time.Now()}
	var parts []*part
	for _, w := range entries {
		r.entries = append(r.entries, &entryTruth{Append: w})
		for range 1 + h.IntN(2) { // parts of one entry may share a row
			parts = append(parts, &part{entry: w.entry, of: w})
		}
	}
	h.rows[place{id, h.next[id]}] = r
	h.o.sent(id, h.next[id], parts)
	h.next[id]++
	return r
}

// copy appends an entry again.
func (h *history) copy(e *entryTruth) {
	to := &Append{entry: e.entry}
	for _, copied := range h.sent(to).entries {
		copied.unlocked = e.unlocked
	}
	for at, r := range h.rows {
		if !e.unlocked && slices.Contains(r.entries, e) {
			h.open[at] = true
		}
	}
	h.o.Copied(e.Append, to)
	e.settled = true
}

func (h *history) stream() StreamID {
	ids := slices.Sorted(maps.Keys(h.next))
	return ids[h.IntN(len(ids))]
}

// any is one of the entries.
func (h *history) any() *entryTruth {
	if len(h.rows) == 0 {
		return nil
	}
	places := slices.SortedFunc(maps.Keys(h.rows), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.StreamID, b.StreamID), cmp.Compare(a.seq, b.seq))
	})
	r := h.rows[places[h.IntN(len(places))]]
	return r.entries[h.IntN(len(r.entries))]
}

// settle settles an entry in the tables. This process may learn it, of the entry by itself or of
// all that wait for a cell.
func (h *history) settle(e *entryTruth) {
	switch cells := e.cells; {
	case len(cells) == 0 && e.state == entryOpen && h.IntN(2) == 0:
		h.o.RolledBack(e.Append)
	case len(cells) == 1 && h.IntN(2) == 0:
		h.o.Cleared(cells[0], e.commitTS, time.Now())
	}
	e.settled = true
	for _, r := range h.rows {
		for _, e := range r.entries {
			e.settled = e.settled || e.state == entrySettled
		}
	}
}

// hurry: each remembered row with a notification is due at once, one that is being looked at after
// that.
func (h *history) hurry() {
	h.looks = append(h.looks, h.o.Due(time.Now(), h.IntN(20))...)
	h.o.Hurry()
	h.end(0, true)
	want := map[place]bool{}
	for id, s := range h.o.streams {
		for seq, row := range s.rows {
			for _, w := range row.open {
				if len(w.cells) > 0 || w.found.Notified != 0 {
					want[place{id, seq}] = true
				}
			}
		}
	}
	for _, d := range h.look(len(want)+1000, false) {
		if d.row != nil {
			delete(want, place{d.Stream, d.row.Seq})
		}
	}
	if len(want) > 0 {
		h.Fatalf("%v have notifications, and are not looked at in a hurry", want)
	}
}

// look looks at some of what is due, as the owner of package settle does. While things still happen
// some looks fail, and some end later.
func (h *history) look(most int, fails bool) []DueRow {
	due := h.o.Due(time.Now(), most)
	h.looks = append(h.looks, due...)
	if !fails {
		h.end(0, false)
		return due
	}
	h.check()
	h.end(h.IntN(len(h.looks)/2+1), true)
	return due
}

// end ends looks in any order, all but some.
func (h *history) end(but int, fails bool) {
	h.Shuffle(len(h.looks), func(i, j int) { h.looks[i], h.looks[j] = h.looks[j], h.looks[i] })
	ended := h.looks[but:]
	h.looks = h.looks[:but:but]
	for _, d := range ended {
		seqs := d.Seqs
		if d.row != nil {
			seqs = []uint64{d.row.Seq}
		} else if h.IntN(3) == 0 && len(seqs) > 0 {
			d.End(1 + h.IntN(len(seqs)))
			seqs = d.Seqs
		}
		failed := fails && h.IntN(10) == 0
		var out Outcome
		for _, seq := range seqs {
			if r := h.rows[place{d.Stream, seq}]; r != nil { // else it was lost, or settled, and a span has kept it
				if !r.tried && d.Sent.Before(r.looked) {
					h.Fatalf("row %d counts as acknowledged before it was", seq)
				}
				if r.tried = true; !failed {
					r.looked = time.Now()
					h.read(d, seq, r, &out)
				}
			}
			out.Rows++
		}
		if failed {
			h.o.Postponed(d)
			continue
		}
		h.o.Looked(d, out)
		for _, l := range out.Left {
			h.learn(place{d.Stream, l.Seq})
		}
	}
}

// read is a look at a row.
func (h *history) read(d DueRow, seq uint64, r *truth, out *Outcome) {
	left := LeftRow{Seq: seq, Progress: h.IntN(20) == 0}
	for _, e := range r.entries {
		switch out.Rows += len(e.entry.Rows); {
		case d.row == nil && !e.settled:
			left.Entries = append(left.Entries, LeftEntry{*e.entry, h.backlog(), e.unlocked && h.IntN(2) == 0})
		case d.row != nil && e.settled && slices.Contains(d.Open, e.Append):
			out.Settled = append(out.Settled, e.Append)
		}
	}
	if out.Progress = d.row != nil && left.Progress; len(left.Entries) == 0 {
		return
	}
	if h.IntN(30) == 0 { // it cannot be decoded
		left.Entries = nil
	}
	out.Left = append(out.Left, left)
}

// learn has the history know as what the owner remembers a row that a look has read.
func (h *history) learn(at place) {
	row := h.o.streams[at.StreamID].rows[at.seq]
	if row == nil {
		return
	}
	r := h.rows[at]
	r.entries = nil
	for _, w := range row.open {
		r.entries = append(r.entries, &entryTruth{Append: w, unlocked: w.unlocked})
	}
}

// check compares the owner with what a walk through everything finds.
func (h *history) check() {
	h.Helper()
	var u Unsettled
	kept := map[place]bool{}
	scheduled, owned := 0, 0
	for id, s := range h.o.streams {
		first := s.next
		for at := range h.spans(id, s) {
			kept[at] = true
			u.Rows++
			first = min(first, at.seq)
		}
		for seq, row := range s.rows {
			kept[place{id, seq}] = true
			u.Rows++
			first = min(first, seq)
			owned += len(row.open)
			for _, w := range row.open {
				u.Oldest, u.Backlog = Earliest(u.Oldest, w.entry.StartTS), u.With(w.found)
			}
			if row.place >= 0 {
				scheduled++
			}
		}
		u.Behind += s.next - first
		if s.first() != first || s.order.Len() != len(s.rows) {
			h.Fatalf("the first row of stream %s is %d, want %d; %d of %d are in order", id, s.first(), first, s.order.Len(), len(s.rows))
		}
	}
	for at, r := range h.rows {
		switch {
		case kept[at]:
		case !r.settled():
			h.Fatalf("row %v is not settled, and forgotten", at)
		default:
			delete(h.rows, at)
		}
	}
	if got := h.o.Unsettled(); got != u {
		h.Fatalf("gauges: %+v, want %+v", got, u)
	}
	if n := h.o.first.Len() + h.o.again.Len(); n != scheduled || h.o.owned != owned || owned > h.limit+2 {
		h.Fatalf("%d rows are scheduled, want %d; %d entries are owned, want %d, and at most %d", n, scheduled, h.o.owned, owned, h.limit+2)
	}
	h.checkNotified()
}

// spans is the unread rows of a stream.
func (h *history) spans(id StreamID, s *ownStream) map[place]bool {
	h.Helper()
	unread, above := map[place]bool{}, uint64(0)
	for i, span := range s.unread.spans {
		if i > 0 && span.from <= above || span.to <= span.from || span.to > h.next[id] {
			h.Fatalf("the spans are %v, and the next row is %d", s.unread.spans, h.next[id])
		}
		for above = span.from; above < span.to; above++ {
			unread[place{id, above}] = true
		}
	}
	if len(s.unread.spans) > maxSpans || len(s.unread.batches) > maxBatches {
		h.Fatalf("%d spans, %d batches", len(s.unread.spans), len(s.unread.batches))
	}
	return unread
}

// checkNotified compares the earliest notifications with what a walk finds.
func (h *history) checkNotified() {
	h.Helper()
	var all, b tso.Timestamp
	for c, list := range h.o.cells {
		for _, w := range list {
			if all = Earliest(all, w.commitTS); c.Column == "b" {
				b = Earliest(b, w.commitTS)
			}
		}
	}
	got, taken := h.o.OldestNotified(func(c model.Cell) bool { return c.Column == "b" })
	if got != all || taken != b {
		h.Fatalf("the oldest notifications are of %d and %d, want %d and %d", got, taken, all, b)
	}
}

// settleAll has everything looked at for a while, and then settles it.
func (h *history) settleAll() {
	seconds := func(d time.Duration) {
		for range d / time.Second {
			time.Sleep(time.Second)
			h.look(1000, false)
		}
		h.check()
	}
	begun := time.Now()
	seconds(3 * FirstLook)
	for at, r := range h.rows {
		if !r.tried {
			h.Fatalf("row %v was appended %v ago, and never looked at", at, time.Since(r.looked))
		}
	}
	seconds(3 * rarestLook)
	for at, r := range h.rows {
		if !r.looked.After(begun) {
			h.Fatalf("row %v was not looked at for %v", at, time.Since(r.looked))
		}
		for _, e := range r.entries {
			e.settled = true
		}
	}
	seconds(3 * rarestLook)
	h.low()
	h.o.Low()
	for id, s := range h.o.streams {
		if s.first() != s.next || s.low != s.next || len(s.unread.batches) != 0 {
			h.Fatalf("of stream %s %v and %v are left; low is %d, want %d", id, s.rows, s.unread, s.low, s.next)
		}
	}
	if h.o.owned != 0 || len(h.o.cells) != 0 || len(h.o.notifying) != 0 || h.o.noticed.Len() != 0 {
		h.Fatalf("%d entries are left, %d cells, %d columns, %d noticed", h.o.owned, len(h.o.cells), len(h.o.notifying), h.o.noticed.Len())
	}
}
