package journal

import (
	"slices"
	"time"
)

// Beyond MaxOwned a stream is numbers: spans that contain every unread row. They are few, and so
// may also contain rows that are settled, or remembered: where there would be more of them, the two
// become one that have the fewest numbers in between.
//
// Two passes read them, a piece at a time. One looks at each row first, some seconds after it was
// acknowledged. The other looks again and again at those that the looks have left: what is settled
// then leaves the spans, and what is not is remembered as soon as there is room. A number leaves
// the spans only by what a look has read of it.
//
// Rejected: a schedule for each span. Spans that are due at different times could not become one,
// or would postpone each other for ever.
const (
	maxSpans = 64
	// pieceRows is how many numbers a piece spans at most.
	pieceRows = 256
	// maxBatches is how many a stream has; they take FirstLook each.
	maxBatches = 16
)

// batch is unread rows below a number that were acknowledged one after the other.
type batch struct {
	opened, sent time.Time // the first of them and the last
	below        uint64
}

// unread is what of a stream is in memory as numbers alone.
type unread struct {
	spans   spans
	batches []batch // in order; the first may be of older rows, too
	first   pass    // over rows that nobody has looked at yet: at and above first.at
	again   pass    // over those below
}

// pass goes through the spans.
type pass struct {
	at, end uint64    // it is to read the numbers from at to below end; none: it rests
	taken   bool      // a piece is being looked at
	then    then      // what follows
	looks   int       // passes in succession that led to nothing
	due     time.Time // for the next piece; zero: there is none
}

// then is when a pass begins anew that has ended.
type then uint8

const (
	rarely then = iota // it has led to nothing
	soon               // it has led to something
	atOnce             // a Hurry came, which is for rows behind it as well
)

// sent adds a row above all others.
func (u *unread) sent(seq uint64, now time.Time) {
	if n := len(u.batches); n == 0 || now.Sub(u.batches[n-1].opened) >= FirstLook {
		u.batches = append(u.batches, batch{opened: now})
	}
	last := &u.batches[len(u.batches)-1]
	last.sent, last.below = now, seq+1
	if len(u.batches) > maxBatches {
		u.batches = slices.Delete(u.batches, 0, 1)
	}
	u.add(seq)
}

// sentBy is when a row, and all before it, were acknowledged at the latest.
func (u *unread) sentBy(seq uint64) time.Time { return u.batches[u.batchOf(seq)].sent }

// batchOf is the place of the batch of a row.
func (u *unread) batchOf(seq uint64) int {
	at, _ := slices.BinarySearchFunc(u.batches, seq, func(b batch, seq uint64) int {
		if b.below <= seq {
			return -1
		}
		return 1
	})
	return at
}

// add has the spans contain a number.
func (u *unread) add(seq uint64) {
	u.spans.add(seq, seq+1)
	u.spans.narrow(maxSpans)
}

// remove has the spans contain no number from from to below to.
func (u *unread) remove(from, to uint64) {
	u.spans.remove(from, to)
	u.spans.narrow(maxSpans)
}

// next is the first number of a pass that is still to be read.
func (u *unread) next(p *pass) (seq uint64, ok bool) {
	at := u.spans.at(p.at)
	if at == len(u.spans) {
		return 0, false
	}
	seq = max(u.spans[at].from, p.at)
	return seq, seq < p.end
}

// passes is those that may read.
func (u *unread) passes(again bool) []*pass {
	switch {
	case len(u.spans) == 0:
		return nil
	case again:
		return []*pass{&u.first, &u.again}
	}
	return []*pass{&u.first}
}

// ready reports whether a pass has something to read now, and since when.
func (u *unread) ready(p *pass, now time.Time) (since time.Time, ok bool) {
	switch {
	case p.taken:
		return since, false
	case p == &u.first:
		return u.ripe(now)
	case p.end > 0:
	case p.due.IsZero() || p.due.After(now):
		return since, false
	default: // it has rested
		p.at, p.end, p.then = u.spans[0].from, u.first.at, rarely
	}
	if _, ok = u.next(p); !ok {
		u.finish(now)
	}
	return p.due, ok
}

// ripe sets the end of the first pass: rows below it were acknowledged FirstLook ago.
func (u *unread) ripe(now time.Time) (since time.Time, ok bool) {
	p := &u.first
	p.end = 0
	for _, b := range u.batches[u.batchOf(p.at):] {
		if b.sent.Add(FirstLook).After(now) {
			break
		}
		if p.end == 0 {
			since = b.sent.Add(FirstLook)
		}
		p.end = b.below
	}
	_, ok = u.next(p)
	return since, ok
}

// finish ends the pass over what looks have left. It begins anew, if there is something.
func (u *unread) finish(now time.Time) {
	p := &u.again
	p.at, p.end, p.looks, p.due = 0, 0, next(p.looks, p.then > rarely), time.Time{}
	switch {
	case u.spans[0].from >= u.first.at:
	case p.then == atOnce:
		p.due = now
	default:
		p.due = now.Add(restAfter(p.looks))
	}
}

// through ends the look at a piece, from from to last: a pass goes on behind it. What a first look
// has left is looked at again soon.
func (u *unread) through(p *pass, from, last uint64, now time.Time) {
	p.at, p.taken = last+1, false
	a := &u.again
	if len(u.spans) == 0 {
		u.batches, a.end, a.due = nil, 0, time.Time{}
		return
	}
	if p == a {
		a.due = now // what has been due for longer comes in between
		return
	}
	if at := u.spans.at(from); at == len(u.spans) || u.spans[at].from > last {
		return
	}
	a.looks = 0
	if at := now.Add(restAfter(1)); a.end == 0 && (a.due.IsZero() || a.due.After(at)) {
		a.due = at
	}
}

// hurry has what looks have left read now. A pass that has started goes on, and starts anew then:
// however often that is, it comes to its end.
func (u *unread) hurry(now time.Time) {
	switch a := &u.again; {
	case a.end > 0:
		a.then = atOnce
	case !a.due.IsZero():
		a.looks, a.due = 0, now
	}
}

// piece takes the next numbers of a pass. The rows are those that are not remembered.
func (s *ownStream) piece(p *pass) DueRow {
	u := &s.unread
	d := DueRow{Stream: s.id, pass: p, again: p == &u.again}
	d.from, _ = u.next(p)
	n := 0
	for _, at := range u.spans[u.spans.at(d.from):] {
		for seq := max(at.from, d.from); seq < min(at.to, p.end) && n < pieceRows; seq++ {
			if n++; s.rows[seq] == nil {
				d.Seqs = append(d.Seqs, seq)
			}
			d.last = seq
		}
	}
	d.Sent, p.taken = u.sentBy(d.last), true
	return d
}
