package journal

import (
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// When a client looks at the rows of its own streams (J4): late, since most settle by themselves,
// then ever more rarely. What is looked at again is at most OwnerRows rows of tables a second, and
// waits for that without keeping first looks. An entry that stays unsettled for minutes is appended
// again, at ever longer intervals, so that one stubborn cell does not hold the low position below
// all that is settled; the original stays for collection (J6, J7).
const (
	FirstLook  = 5 * time.Second
	rarestLook = 5 * time.Minute

	// OwnerRows is how many rows of tables a second a client looks at again.
	OwnerRows = 2000

	againAfter = 2 * time.Minute
	maxDoubled = 8 // times that the interval doubles: to about eight hours
)

// DueRow is a row of a stream that is looked at, or several that have to be read.
type DueRow struct {
	Stream StreamID
	Sent   time.Time // acknowledged, the last of them
	Open   []*Append // the entries, but for those that another row stands for
	Seqs   []uint64  // of the rows to be read, in order, in place of that

	row *OwnRow // nil: they have to be read

	pass       *pass  // that reads them
	from, last uint64 // of the piece
	again      bool   // a look before has led to nothing
	came       int64  // agenda.came: a Hurry since then is for what the look finds, too
}

// Unread reports whether the rows have to be read.
func (d *DueRow) Unread() bool { return d.row == nil }

// End has only the first n of the rows that are to be read looked at.
func (d *DueRow) End(n int) {
	if n < len(d.Seqs) {
		d.Seqs, d.last = d.Seqs[:n], d.Seqs[n-1]
	}
}

// Outcome is what a look has led to.
type Outcome struct {
	Rows     int       // of tables and of the journal that were read for it
	Settled  []*Append // of a remembered row
	Progress bool      // of the same: it has led to something, and the next look follows soon
	Left     []LeftRow // of rows that were read: those that are not settled
}

// LeftRow is an unsettled row, with the entries that are not; none: it cannot be decoded.
type LeftRow struct {
	Seq      uint64
	Entries  []LeftEntry
	Progress bool // as that of Outcome
}

// LeftEntry is an unsettled entry, with what the look has found of it.
type LeftEntry struct {
	model.JournalEntry
	Found    Backlog
	Unlocked bool // it is decided, and no lock of it is left
}

// Due takes what is to be looked at now, at most most rows and pieces, the one that has been due
// longest first. The caller, one at a time, ends each with Looked or Postponed.
func (o *Owner) Due(now time.Time, most int) (due []DueRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(due) < most {
		d, ok := o.take(now)
		if !ok {
			break
		}
		due = append(due, d)
	}
	return due
}

// Looked ends a look.
func (o *Owner) Looked(d DueRow, out Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if d.again {
		o.spend(out.Rows, now)
	}
	if d.Unread() {
		o.readAgain(d, out.Left, now)
		return
	}
	for _, w := range out.Settled {
		o.settle(w)
	}
	if len(d.row.open) > 0 {
		d.row.looks = next(d.row.looks, out.Progress)
		o.schedule(d.row, d.came, now)
	}
}

// readAgain replaces rows that a look has read by those of them that are not settled. These are
// remembered as far as there is room. The caller holds o.mu.
func (o *Owner) readAgain(d DueRow, left []LeftRow, now time.Time) {
	s := o.streams[d.Stream]
	p, looks := d.pass, d.pass.looks
	s.unread.remove(d.from, d.last+1)
	for _, l := range left {
		if l.Progress {
			p.then = max(p.then, soon)
		}
		if len(l.Entries) == 0 || o.owned+len(l.Entries) > o.limit {
			s.unread.add(l.Seq)
			continue
		}
		row := newRow(d.Stream, l.Seq, d.Sent)
		for i := range l.Entries {
			e := &l.Entries[i]
			o.hold(row, &Append{entry: &e.JournalEntry, ownEntry: ownEntry{found: e.Found, unlocked: e.Unlocked}})
		}
		row.looks = next(looks, l.Progress)
		o.remember(s, row, d.came, now)
	}
	s.unread.through(p, d.from, d.last, now)
}

// next is how many looks in succession have led to nothing, after one more.
func next(looks int, progress bool) int {
	if progress {
		return 0
	}
	return looks + 1
}

// Postponed ends a look that could not be made: the row becomes due as it has before, and a piece
// with what looks have left.
func (o *Owner) Postponed(d DueRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch now := time.Now(); {
	case d.Unread():
		o.streams[d.Stream].unread.through(d.pass, d.from, d.last, now)
	case len(d.row.open) > 0:
		o.schedule(d.row, d.came, now)
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
	to.copied = w.copied + 1
	o.find(to, w.found)
	if w.state == entrySettled {
		o.settle(to)
		return
	}
	to.state, to.commitTS, to.unfinished, to.unlocked = w.state, w.commitTS, w.unfinished, w.unlocked
	for i := 0; w.hasLocks() && i < len(w.in); i++ {
		o.stream(w.in[i].Stream).leaveOpen(w.in[i].Seq)
	}
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
