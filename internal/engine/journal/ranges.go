package journal

import "time"

// Beyond MaxOwned a stream is ranges of unread rows: first and last number, and what its schedule
// needs. A range becomes due as a whole; each look takes the next piece off its front, and what it
// leaves unsettled becomes due again as a range of its own, or is remembered if there is room.
//
// Ranges hold no remembered row. Where a stream has too many, the two neighbors become one that are
// the cheapest to look at together: settled rows between them are read again, and the one that was
// due later is looked at with the other. One that is due and one that is not stay two: else a look
// would never reach the end of a range.
//
// What a client remembers of its streams is so at most MaxOwned rows, maxRanges+1 ranges of each
// stream, and the pieces that a look is reading.
//
// Rejected: a bit for each number. It has no bound, and looks would still need their schedule.
const (
	// fewRanges is how many ranges a stream has before neighbors become one.
	fewRanges = 32
	// maxRanges is how many it has before a new row of it is unread even if there is room: remembered
	// rows keep ranges apart. Beyond it any neighbors become one.
	maxRanges = 2 * fewRanges

	// pieceRows is how many rows of a stream a look takes off a range at most.
	pieceRows = 128
	// joinWithin is how much earlier than by itself a row is first looked at with a range.
	joinWithin = time.Second
)

// takes reports whether a new row may join a range that was not looked at yet.
func (r *OwnRow) takes(row *OwnRow) bool {
	return r != nil && r.state == rowUnread && r.place >= 0 && r.looks == 0 && r.Last+1 == row.Seq &&
		row.Sent.Add(FirstLook).Sub(r.due) <= joinWithin
}

// take adds a row, or a range, to one that it follows.
func (r *OwnRow) take(row *OwnRow) {
	r.Last, r.Sent = row.Last, row.Sent
	r.unread += row.unread
	r.largest = max(r.largest, row.largest)
}

// cut takes the first due row for a look: it leaves Owner.due. Of a range it takes a piece, as far
// as the names go. The caller holds o.mu.
func (o *Owner) cut(row *OwnRow, names int) *OwnRow {
	n := min(pieceRows, max(1, names/(row.largest+1))) // each row of the stream is read too
	if row.apart {
		n = 1
	}
	if row.size() <= n {
		return o.due.Pop()
	}
	piece := *row
	piece.Last = row.Seq + uint64(n) - 1
	piece.unread = row.unread * n / row.size()
	piece.place = -1
	row.Seq += uint64(n)
	row.unread -= piece.unread
	o.insert(&piece, row)
	return &piece
}

// readAgain replaces a piece by its rows that are not settled. They are remembered as far as there
// is room; the others become ranges. The caller holds o.mu.
func (o *Owner) readAgain(piece *OwnRow, left []LeftRow) {
	s, behind := o.streams[piece.Stream], piece.next
	o.unlink(piece)
	room := true
	for len(left) > 0 {
		row, n := newRow(piece.Stream, left[0].Seq, piece.Sent), 1
		entries := left[0].Entries
		if room = room && len(entries) > 0 && o.owned+len(entries) <= o.limit && len(s.ranges) < maxRanges; room {
			for i := range entries {
				o.hold(row, &Append{entry: &entries[i]})
			}
		} else {
			n = row.unreadOf(left)
			o.named += row.unread
		}
		row.looks = next(piece.looks, left[0].Progress)
		o.insert(row, behind)
		o.schedule(row, time.Now())
		left = left[n:]
	}
	o.narrow(s)
	piece.state = rowSettled
	o.unname(piece.unread)
}

// unreadOf makes a row the range of those rows at the front of left that follow each other and have
// come as far. It returns how many they are.
func (r *OwnRow) unreadOf(left []LeftRow) (n int) {
	r.state = rowUnread
	for n < len(left) && left[n].Seq == r.Seq+uint64(n) && left[n].Progress == left[0].Progress {
		names := 0
		for _, e := range left[n].Entries {
			names += len(e.Rows)
		}
		r.Last = left[n].Seq
		r.unread += names
		r.largest = max(r.largest, names)
		n++
	}
	return n
}

// narrow makes neighboring ranges of a stream one while it has too many. The caller holds o.mu.
func (o *Owner) narrow(s *ownStream) {
	for now := time.Now(); len(s.ranges) > fewRanges; {
		var cheapest *OwnRow
		least := 0
		for _, r := range s.ranges {
			if cost, ok := r.costOfNext(now, len(s.ranges) > maxRanges); ok && (cheapest == nil || cost < least) {
				cheapest, least = r, cost
			}
		}
		if cheapest == nil {
			return
		}
		o.join(cheapest, now)
	}
}

// costOfNext is about how many rows are looked at in vain, or too early, if a range becomes one with
// its neighbor. Not ok: they stay two. Only in need is one that is due postponed.
func (r *OwnRow) costOfNext(now time.Time, need bool) (cost int, ok bool) {
	n := r.next
	if n == nil || n.state != rowUnread || r.place < 0 || n.place < 0 {
		return 0, false
	}
	cost = int(n.Seq - r.Last - 1)
	if r.looks < n.looks {
		cost += n.size()
	} else if r.looks > n.looks {
		cost += r.size()
	}
	return cost, need || r.due.After(now) == n.due.After(now)
}

// join makes a range one with its neighbor. The caller holds o.mu.
func (o *Owner) join(r *OwnRow, now time.Time) {
	n := r.next
	between := (r.unread + n.unread) * int(n.Seq-r.Last-1) / (r.size() + n.size())
	o.named += between
	if together := r.due.After(now) == n.due.After(now); n.due.Before(r.due) == together {
		r.due = n.due
	}
	r.looks, r.apart, r.hurries = min(r.looks, n.looks), r.apart && n.apart, min(r.hurries, n.hurries)
	r.unread += between
	if n.Sent.Before(r.Sent) {
		n.Sent = r.Sent
	}
	o.unlink(n)
	n.state = rowSettled
	r.take(n)
	o.due.Fix(r.place)
}
