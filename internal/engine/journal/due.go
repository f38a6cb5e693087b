package journal

import (
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// When a client looks at the rows of its own streams (J4): late, since most settle by themselves,
// then ever more rarely, and so rarely that what is looked at again is at most OwnerRows rows of
// tables a second. An entry that stays unsettled for minutes is appended again, at ever longer
// intervals, so that one stubborn cell does not hold the low position below all that is settled;
// the original stays for collection (J6, J7).
const (
	FirstLook  = 5 * time.Second
	rarestLook = 5 * time.Minute

	// OwnerRows is how many rows of tables a second a client looks at again.
	OwnerRows = 2000

	againAfter = 2 * time.Minute
	maxDoubled = 8 // times that the interval doubles: to about eight hours
)

// DueRow is a row of a stream that is looked at, or a piece of a range, with what of its entries
// is.
type DueRow struct {
	*OwnRow
	Unread bool      // the entries of Seq to Last have to be read
	Open   []*Append // else they are these, but for those that another row stands for
}

// Outcome is what a look has led to.
type Outcome struct {
	Settled  []*Append // of a remembered row
	Progress bool      // the same: it has led to something, and the next look follows soon
	Left     []LeftRow // of a piece: its unsettled rows, in order
}

// LeftRow is a row of a piece, with the entries that a look has not settled.
type LeftRow struct {
	StreamRow
	Progress bool // as that of Outcome
}

// Due takes the rows that are to be looked at now, and pieces of ranges, at most most of them, the
// one that has been due longest first. A piece that is more than one row names, with these, at most
// names rows of tables. The caller, one at a time, ends each with Looked or Postponed.
func (o *Owner) Due(now time.Time, most, names int) (due []DueRow) {
	o.hasten()
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(due) < most && o.due.Len() > 0 && !o.due.First().due.After(now) {
		row := o.cut(o.due.First(), names)
		d := DueRow{OwnRow: row, Unread: row.state == rowUnread}
		for _, w := range row.open {
			if w.in[0] == row {
				d.Open = append(d.Open, w)
			}
		}
		due = append(due, d)
	}
	return due
}

// Looked ends a look.
func (o *Owner) Looked(d DueRow, out Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range out.Settled {
		o.settle(w)
	}
	switch row := d.OwnRow; row.state {
	case rowSettled:
	case rowUnread:
		o.readAgain(row, out.Left)
	default:
		row.looks = next(row.looks, out.Progress)
		o.schedule(row, time.Now())
	}
}

// next is how many looks in succession have led to nothing, after one more.
func next(looks int, progress bool) int {
	if progress {
		return 0
	}
	return looks + 1
}

// Postponed ends a look that could not be made: the row becomes due as it has before. The rows of a
// piece that are apart are read one by one then: one of them cannot be decoded, and keeps no other.
func (o *Owner) Postponed(d DueRow, apart bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.state == rowSettled {
		return
	}
	d.apart = apart
	o.schedule(d.OwnRow, time.Now())
	o.narrow(o.streams[d.Stream])
}

// Again reports whether an unsettled entry is to be appended again: it has been unsettled for long
// enough, and there are rows above it.
func (o *Owner) Again(w *Append, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(w.in) == 0 {
		return false
	}
	row := w.in[0]
	return now.Sub(row.Sent) > againAfter<<min(w.copied, maxDoubled) && row.Seq+1 < o.streams[row.Stream].next
}

// Copied says that an entry was appended again, as to: what is known of it is known of the copy,
// and the original counts as settled.
func (o *Owner) Copied(w, to *Append) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to.copied, to.found = w.copied+1, w.found
	o.gauge(to)
	if w.state == entrySettled {
		o.settle(to)
		return
	}
	to.state, to.commitTS, to.unfinished = w.state, w.commitTS, w.unfinished
	o.await(to, w.cells)
	o.settle(w)
}

// CommitTS is when the transaction committed, as far as this process knows; 0: it does not. Phase
// two of it may be in flight.
func (o *Owner) CommitTS(w *Append) (ts tso.Timestamp, inPhaseTwo bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return w.commitTS, w.unfinished > 0
}

// schedule has a row looked at some time after from. The caller holds o.mu.
func (o *Owner) schedule(row *OwnRow, from time.Time) {
	after := lookAfter(row.looks)
	if row.looks > 0 {
		after = max(after, o.leastRest())
		after += rand.N(after / 8) // not always beside the same others
		o.rested = max(o.rested, o.named)
	}
	row.due, row.hurries = from.Add(after), o.hurries
	o.due.Push(row)
}

// leastRest is how long rows rest between looks, so that these do not exceed OwnerRows.
func (o *Owner) leastRest() time.Duration { return time.Duration(o.named) * time.Second / OwnerRows }

// lookAfter is how long a row rests that was looked at so often.
func lookAfter(looks int) time.Duration {
	return min(FirstLook<<min(looks, 12), rarestLook)
}
