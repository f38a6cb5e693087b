package journal

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

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

// Looking is a row of a stream that is due, with what is known of it.
type Looking struct {
	*OwnRow
	Open  []*Append // its unsettled entries, but for those that another row stands for
	Known bool      // else the row has to be read

	Progress bool // the look has led to something, and the next one follows soon
}

// Due takes the rows that are to be looked at now, at most most of them, the one that has been due
// longest first. The caller ends each with Looked.
func (o *Owner) Due(now time.Time, most int) (due []Looking) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(due) < most && len(o.due) > 0 && !o.due[0].due.After(now) {
		row := heap.Pop(&o.due).(*OwnRow)
		l := Looking{OwnRow: row, Known: row.known}
		for _, w := range row.open {
			if w.in[0] == row {
				l.Open = append(l.Open, w)
			}
		}
		due = append(due, l)
	}
	return due
}

// Looked ends a look: settled are the entries of the row that are settled, and left, of a row that
// had to be read, those that are not.
func (o *Owner) Looked(l Looking, settled []*Append, left []Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range settled {
		o.settle(w)
	}
	row := l.OwnRow
	switch {
	case row.settled:
		return
	case !row.known && len(left) == 0:
		o.remove(row)
		return
	case !row.known && o.owned+len(left) <= MaxOwned:
		row.known = true
		o.named -= row.unread
		row.unread = 0
		for i := range left {
			o.hold(row, &Append{entry: &left[i]})
		}
	}
	if row.looks++; l.Progress {
		row.looks = 0
	}
	o.schedule(row, time.Now())
}

// Postponed ends a look that could not be made, for the next turn.
func (o *Owner) Postponed(l Looking) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !l.OwnRow.settled {
		o.schedule(l.OwnRow, time.Now())
	}
}

// Again reports whether an unsettled entry is to be appended again: it has been unsettled for long
// enough, and there are rows above it.
func (o *Owner) Again(w *Append, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.settled || len(w.in) == 0 {
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
	to.copied = w.copied + 1
	to.notified, to.taken, to.expired = w.notified, w.taken, w.expired
	if w.settled {
		o.settle(to)
		return
	}
	to.commitTS, to.decided, to.rows, to.failed = w.commitTS, w.decided, w.rows, w.failed
	o.await(to, w.cells)
	o.settle(w)
}

// CommitTS is when the transaction committed, as far as this process knows; 0: it does not. Phase
// two of it may be under way.
func (o *Owner) CommitTS(w *Append) (ts tso.Timestamp, underWay bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return w.commitTS, w.rows > 0
}

// Hurry makes every row due that holds an unprocessed notification, as if it had never been looked
// at: a worker had no room for it, and has now.
func (o *Owner) Hurry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for _, row := range o.due {
		if !row.known || slices.ContainsFunc(row.open, func(w *Append) bool { return w.notified != 0 || len(w.cells) > 0 }) {
			row.looks, row.due = 0, now
		}
	}
	heap.Init(&o.due)
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
	heap.Push(&o.due, row)
}

// leastRest is how long rows rest between looks, so that these do not exceed OwnerRows.
func (o *Owner) leastRest() time.Duration { return time.Duration(o.named) * time.Second / OwnerRows }

// unname notes that n names need no look any more. Once that is most of those for which rows rest,
// they rest for less. The caller holds o.mu.
func (o *Owner) unname(n int) {
	if o.named -= n; o.named > o.rested/2 {
		return
	}
	o.rested = o.named
	now := time.Now()
	for _, row := range o.due {
		if latest := now.Add(max(lookAfter(row.looks), o.leastRest())); row.looks > 0 && row.due.After(latest) {
			row.due = latest
		}
	}
	heap.Init(&o.due)
}

// lookAfter is how long a row rests that was looked at so often.
func lookAfter(looks int) time.Duration {
	return min(FirstLook<<min(looks, 12), rarestLook)
}

// dueRows orders rows by when they are due. It implements heap.Interface.
type dueRows []*OwnRow

func (d dueRows) Len() int           { return len(d) }
func (d dueRows) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueRows) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *dueRows) Push(x any) {
	row := x.(*OwnRow)
	row.index = len(*d)
	*d = append(*d, row)
}

func (d *dueRows) Pop() any {
	last := len(*d) - 1
	row := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	row.index = -1
	return row
}

func (d *dueRows) remove(row *OwnRow) {
	if row.index >= 0 {
		heap.Remove(d, row.index)
	}
}
