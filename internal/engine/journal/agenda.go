package journal

import (
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
)

// agenda is when unsettled rows are looked at. Those that a look is reading are in none of it.
type agenda struct {
	first, again ordered.Heap[*OwnRow] // remembered rows, by how often they were looked at in vain
	rested       time.Time             // when rows may be looked at again

	noticed earliest // remembered rows that may hold an unprocessed notification, as they came
	came    int64    // counts rows that come to noticed, and looks that begin
	hurried int64    // came, when Hurry was called last
}

// take takes the row, or the piece, that has been due longest. The caller holds o.mu.
func (o *Owner) take(now time.Time) (d DueRow, ok bool) {
	latest := now.Add(1) // what is due before that
	again := !now.Before(o.rested)
	var row *OwnRow
	if n := &o.noticed; n.Len() > 0 && n.first() <= o.hurried {
		row = n.First().row
		latest = row.noticed
	}
	for _, h := range o.heaps(again) {
		if h.Len() > 0 && h.First().due.Before(latest) {
			row, latest = h.First(), h.First().due
		}
	}
	var of *ownStream
	var next *pass
	for _, s := range o.streams {
		for _, p := range s.unread.passes(again) {
			if at, ok := s.unread.ready(p, now); ok && at.Before(latest) {
				of, next, latest = s, p, at
			}
		}
	}
	switch {
	case next != nil:
		d = of.piece(next)
	case row != nil:
		d = o.takeRow(row)
	default:
		return d, false
	}
	o.came++
	d.came = o.came
	return d, true
}

// takeRow takes a row for a look. The caller holds o.mu.
func (o *Owner) takeRow(row *OwnRow) DueRow {
	hurried := row.inNoticed.place > 0 && row.inNoticed.at <= o.hurried
	if o.leave(row); hurried {
		row.looks = 0
	}
	d := DueRow{Stream: row.Stream, Sent: row.Sent, row: row, again: row.looks > 0}
	for _, w := range row.open {
		if w.in[0] == row {
			d.Open = append(d.Open, w)
		}
	}
	return d
}

// heaps is those whose rows may be looked at.
func (a *agenda) heaps(again bool) []*ordered.Heap[*OwnRow] {
	if again {
		return []*ordered.Heap[*OwnRow]{&a.first, &a.again}
	}
	return []*ordered.Heap[*OwnRow]{&a.first}
}

// spend notes that n rows were looked at again: of a second's worth at once, and no more before
// the time that they take at OwnerRows has passed.
func (a *agenda) spend(n int, now time.Time) {
	if burst := now.Add(-time.Second); a.rested.Before(burst) {
		a.rested = burst
	}
	a.rested = a.rested.Add(time.Duration(n) * time.Second / OwnerRows)
}

// schedule has a row looked at some time after from, and in a Hurry since came. The caller holds
// o.mu.
func (o *Owner) schedule(row *OwnRow, came int64, from time.Time) {
	row.due = from.Add(restAfter(row.looks))
	o.heap(row).Push(row)
	for _, w := range row.open {
		if len(w.cells) > 0 || w.found.Notified != 0 {
			o.notice(row, came)
			return
		}
	}
}

// heap is where a row is scheduled.
func (o *Owner) heap(row *OwnRow) *ordered.Heap[*OwnRow] {
	if row.looks > 0 {
		return &o.again
	}
	return &o.first
}

// leave takes a row out of the agenda. The caller holds o.mu.
func (o *Owner) leave(row *OwnRow) {
	if row.place >= 0 {
		o.heap(row).Remove(row.place)
	}
	o.noticed.set(&row.inNoticed, 0)
}

// notified notes that a row may hold an unprocessed notification. One that is being looked at is
// noticed when it is scheduled. The caller holds o.mu.
func (o *Owner) notified(row *OwnRow) {
	if row.place >= 0 && row.inNoticed.place == 0 {
		o.came++
		o.notice(row, o.came)
	}
}

// notice has a Hurry since came make a row due.
func (o *Owner) notice(row *OwnRow, came int64) {
	o.noticed.set(&row.inNoticed, came)
	row.noticed = time.Now()
}

// Hurry makes every row due that may hold an unprocessed notification, as if it had never been
// looked at: a worker had no room for it, and has now. It counts as due since it was scheduled:
// rows that are due come in between, however often that is. One that is being looked at is due once
// more after that: the worker may have had no room for what this look has found.
func (o *Owner) Hurry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hurried = o.came
	for _, s := range o.streams {
		s.unread.hurry(time.Now())
	}
	select {
	case o.Hurried <- struct{}{}:
	default:
	}
}

// restAfter is how long a row rests that was looked at so often in vain: not always beside the same
// others.
func restAfter(looks int) time.Duration {
	after := lookAfter(looks)
	if looks > 0 {
		after += rand.N(after / 8)
	}
	return after
}

func lookAfter(looks int) time.Duration {
	return min(FirstLook<<min(looks, 12), rarestLook)
}

// Before and Placed are for agenda.
func (r *OwnRow) Before(other *OwnRow) bool { return r.due.Before(other.due) }
func (r *OwnRow) Placed(at int)             { r.place = at }
