package journal

import (
	"math/rand/v2"
	"slices"
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

// DueRow is a row of a stream that is looked at, with what of its entries is.
type DueRow struct {
	*OwnRow
	Unread bool      // its entries have to be read
	Open   []*Append // else they are these, but for those that another row stands for
}

// Outcome is what a look at a row has led to.
type Outcome struct {
	Settled  []*Append            // of a remembered row
	Left     []model.JournalEntry // of an unread row: what is not settled
	Progress bool                 // it has led to something, and the next look follows soon
}

// Due takes the rows that are to be looked at now, at most most of them, the one that has been due
// longest first. The caller ends each with Looked or Postponed.
func (o *Owner) Due(now time.Time, most int) (due []DueRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(due) < most && o.due.Len() > 0 && !o.due.First().due.After(now) {
		row := o.due.Pop()
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
	row := d.OwnRow
	if row.state == rowUnread {
		o.readAgain(row, out.Left)
	}
	if row.state == rowSettled {
		return
	}
	if row.looks++; out.Progress {
		row.looks = 0
	}
	o.schedule(row, time.Now())
}

// readAgain notes the entries that an unread row holds unsettled: none settles it, and those that
// there is room for are remembered. The caller holds o.mu.
func (o *Owner) readAgain(row *OwnRow, left []model.JournalEntry) {
	switch {
	case len(left) == 0:
		o.remove(row)
	case o.owned+len(left) <= MaxOwned:
		row.state = rowRemembered
		o.named -= row.unread
		row.unread = 0
		for i := range left {
			o.hold(row, &Append{entry: &left[i]})
		}
	}
}

// Postponed ends a look that could not be made: the row becomes due as it has before.
func (o *Owner) Postponed(d DueRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.state != rowSettled {
		o.schedule(d.OwnRow, time.Now())
	}
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

// Hurry makes every row due that holds an unprocessed notification, as if it had never been looked
// at: a worker had no room for it, and has now.
func (o *Owner) Hurry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for _, row := range o.due.All() {
		if row.state == rowUnread || slices.ContainsFunc(row.open, func(w *Append) bool { return w.found.Notified != 0 || len(w.cells) > 0 }) {
			row.looks, row.due = 0, now
		}
	}
	o.due.Init()
	select {
	case o.Hurried <- struct{}{}:
	default:
	}
}

// schedule has a row looked at some time after from. The caller holds o.mu.
func (o *Owner) schedule(row *OwnRow, from time.Time) {
	after := lookAfter(row.looks)
	if row.looks > 0 {
		after = max(after, o.leastRest())
		after += rand.N(after / 8) // not always beside the same others
		o.rested = max(o.rested, o.named)
	}
	row.due = from.Add(after)
	o.due.Push(row)
}

// leastRest is how long rows rest between looks, so that these do not exceed OwnerRows.
func (o *Owner) leastRest() time.Duration { return time.Duration(o.named) * time.Second / OwnerRows }

// unname notes that n names need no look any more. Once those are most of what the rows rest for,
// they rest for less. The caller holds o.mu.
func (o *Owner) unname(n int) {
	if o.named -= n; o.named > o.rested/2 {
		return
	}
	o.rested = o.named
	now := time.Now()
	for _, row := range o.due.All() {
		if latest := now.Add(max(lookAfter(row.looks), o.leastRest())); row.looks > 0 && row.due.After(latest) {
			row.due = latest
		}
	}
	o.due.Init()
}

// lookAfter is how long a row rests that was looked at so often.
func lookAfter(looks int) time.Duration {
	return min(FirstLook<<min(looks, 12), rarestLook)
}

// Before and Placed are for Owner.due.
func (r *OwnRow) Before(other *OwnRow) bool { return r.due.Before(other.due) }
func (r *OwnRow) Placed(at int)             { r.place = at }
