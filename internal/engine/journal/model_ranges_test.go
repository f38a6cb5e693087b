package journal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// history is an owner with a small limit, and what is true of each entry that was appended to a
// stream: the look that reads a row finds out.
type history struct {
	*testing.T
	*rand.Rand
	o      *Owner
	limit  int
	rows   map[uint64]*truth // not settled, as far as the owner may know
	next   uint64
	looked map[uint64]time.Time
}

// truth is a row of one entry.
type truth struct {
	*Append
	settled bool // in the tables
	cell    model.Cell
}

const historyStream = StreamID("s")

// Whatever comes in whatever order, each unsettled row of a stream is in exactly one item, in
// order; gauges say what a walk through all items finds; the longest due comes first; memory is
// bounded; and all is settled in the end (J4).
func TestRangesHoldWhatIsUnsettled(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(18, seed))
				h := &history{T: t, Rand: r, o: NewOwner(), limit: 1 + r.IntN(60), rows: map[uint64]*truth{}, next: 1, looked: map[uint64]time.Time{}}
				h.o.Limit(h.limit)
				for range 1000 {
					h.step()
					h.check()
				}
				h.looksReachAll()
				h.end()
			})
		})
	}
}

// step does something at random.
func (h *history) step() {
	switch h.IntN(14) {
	case 0, 1, 2, 3:
		for range 1 + h.IntN(8) {
			h.append()
		}
	case 4: // the number is lost
		h.next++
	case 5, 6: // in the tables, and perhaps here
		for range h.IntN(12) {
			if _, r := h.any(); r != nil {
				if r.settled = true; h.IntN(2) == 0 {
					h.settleHere(r)
				}
			}
		}
	case 7:
		if _, r := h.any(); r != nil {
			h.o.Found(r.Append, Backlog{tso.Timestamp(h.IntN(50)), tso.Timestamp(h.IntN(50)), tso.Timestamp(h.IntN(50))})
		}
	case 8:
		if h.IntN(4) == 0 {
			h.o.Hurry()
		}
	case 9, 10, 11:
		h.look(1 + h.IntN(20))
	case 12:
		time.Sleep(time.Duration(h.IntN(3000)) * time.Millisecond)
	case 13:
		time.Sleep(time.Duration(h.IntN(60)) * time.Second)
	}
}

func (h *history) append() {
	e := &model.JournalEntry{StartTS: tso.Timestamp(1 + h.IntN(1000)), Rows: make([]model.JournalName, h.IntN(40))}
	r := &truth{Append: &Append{entry: e}}
	h.rows[h.next] = r
	h.looked[h.next] = time.Now()
	h.o.sent(historyStream, h.next, []*part{{entry: e, of: r.Append}})
	if h.next++; h.IntN(2) == 0 {
		r.cell = model.Cell{Table: "t", Row: "r", Column: []string{"a", "b"}[h.IntN(2)]}
		h.o.Committed(r.Append, tso.Timestamp(1+h.IntN(1000)), 0, []model.Cell{r.cell})
	}
}

// any is one of the rows.
func (h *history) any() (uint64, *truth) {
	if len(h.rows) == 0 {
		return 0, nil
	}
	seqs := h.seqs()
	seq := seqs[h.IntN(len(seqs))]
	return seq, h.rows[seq]
}

func (h *history) seqs() (seqs []uint64) {
	for seq := range h.rows {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// settleHere has this process learn that an entry is settled.
func (h *history) settleHere(r *truth) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.o.settle(r.Append)
}

// look looks at some of what is due, as the owner of package settle does.
func (h *history) look(most int) {
	due := h.o.Due(time.Now(), most, 1000)
	for i, d := range due {
		if d.due.After(time.Now()) || i > 0 && d.due.Before(due[i-1].due) {
			h.Fatalf("what is due %v comes after %v", d.due, due[max(i, 1)-1].due)
		}
	}
	h.check()
	for _, d := range due {
		names := 0
		var out Outcome
		for seq := d.Seq; seq <= d.Last; seq++ {
			h.looked[seq] = time.Now()
			r := h.rows[seq]
			if r == nil { // lost, or settled
				continue
			}
			names += len(r.entry.Rows) + 1
			switch {
			case !r.settled && d.Unread:
				out.Left = append(out.Left, LeftRow{StreamRow{seq, []model.JournalEntry{*r.entry}}, h.IntN(20) == 0})
			case r.settled:
				out.Settled = append(out.Settled, d.Open...)
			}
		}
		if d.Unread && (d.size() > pieceRows || names > 1000) {
			h.Fatalf("a piece of %d rows names %d", d.size(), names)
		}
		if h.IntN(10) == 0 {
			h.o.Postponed(d, h.IntN(2) == 0)
		} else {
			h.o.Looked(d, out)
			h.learn(d.Seq, d.Last)
		}
	}
	h.check()
}

// learn has the test know the entries by which the owner remembers rows that a look has read.
func (h *history) learn(from, to uint64) {
	for row := h.o.streams[historyStream].first; row != nil; row = row.next {
		if r := h.rows[row.Seq]; r != nil && row.state == rowRemembered && row.Seq >= from && row.Seq <= to {
			r.Append = row.open[0]
		}
	}
}

// check compares the owner with what a walk finds.
func (h *history) check() {
	h.Helper()
	s := h.o.streams[historyStream]
	if s == nil {
		return
	}
	covered := map[uint64]bool{}
	var named, remembered, unsettled, scheduled int
	var oldest tso.Timestamp
	var found Backlog
	var ranges, behind []*OwnRow
	at := uint64(0)
	for row := s.first; row != nil; row = row.next {
		if row.Seq <= at || row.Last < row.Seq || row.next != nil && row.next.previous != row {
			h.Fatalf("rows %d to %d stand behind %d", row.Seq, row.Last, at)
		}
		for at = row.Seq; at < row.Last; at++ {
			covered[at] = true
		}
		covered[at] = true
		named += row.unread
		unsettled += row.size()
		if row.place >= 0 {
			scheduled++
		}
		if row.state == rowUnread {
			if ranges = append(ranges, row); row.previous != nil && row.previous.state == rowRemembered {
				behind = append(behind, row)
			}
			continue
		}
		remembered++
		w := row.open[0]
		named += len(w.entry.Rows)
		oldest, found = Earliest(oldest, w.entry.StartTS), found.With(w.found)
	}
	for seq, r := range h.rows {
		if r.settled && !covered[seq] {
			delete(h.rows, seq)
		}
		if !r.settled && !covered[seq] {
			h.Fatalf("row %d is not settled, and forgotten", seq)
		}
	}
	if u := h.o.Unsettled(); u.Rows != unsettled || u.Oldest != oldest || u.Backlog != found || h.o.named != named {
		h.Fatalf("gauges: %+v and %d names, want %d rows, %d, %+v and %d names", u, h.o.named, unsettled, oldest, found, named)
	}
	if remembered != h.o.remembered || remembered > h.limit || !slices.Equal(ranges, s.ranges) || scheduled != h.o.due.Len() {
		h.Fatalf("%d rows of %d are remembered, %d ranges, %d scheduled; want %d, %d, %d", h.o.remembered, h.limit, len(s.ranges), h.o.due.Len(), remembered, len(ranges), scheduled)
	}
	if inFlight := remembered + len(ranges) - scheduled; len(ranges)-inFlight > maxRanges+len(behind) {
		h.Fatalf("%d ranges, of which %d begin behind a remembered row", len(ranges), len(behind))
	}
	h.checkNotified()
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
	visited := 0
	got, taken := h.o.OldestNotified(func(c model.Cell) bool {
		visited++
		return c.Column == "b"
	})
	if got != all || taken != b || visited > 2 {
		h.Fatalf("the oldest notifications are of %d and %d, want %d and %d; %d columns", got, taken, all, b, visited)
	}
}

// looksReachAll: no row waits for ever behind others.
func (h *history) looksReachAll() {
	begun := time.Now()
	for range 400 {
		time.Sleep(3 * time.Second)
		h.look(50)
	}
	for seq := range h.rows {
		if !h.looked[seq].After(begun) {
			h.Fatalf("row %d was not looked at for %v", seq, time.Since(h.looked[seq]))
		}
	}
}

// end settles everything.
func (h *history) end() {
	for _, r := range h.rows {
		r.settled = true
	}
	for range 400 {
		time.Sleep(3 * time.Second)
		h.look(50)
	}
	h.o.Low()
	if s := h.o.streams[historyStream]; s.first != nil || s.low != s.next || h.o.named != 0 || h.o.owned != 0 || h.o.due.Len() != 0 || len(h.o.cells) != 0 {
		h.Fatalf("%d names and %d entries are left; low is %d, want %d", h.o.named, h.o.owned, s.low, s.next)
	}
}
