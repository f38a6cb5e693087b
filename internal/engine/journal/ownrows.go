package journal

import (
	"slices"
	"time"
)

// ownStream is a stream that this client has appended to, with its unsettled rows in order. What is
// settled leaves at once.
type ownStream struct {
	first, last *OwnRow
	ranges      []*OwnRow // the unread ones, in order
	visited     *OwnRow   // the next one that hasten visits
	next        uint64    // above every acknowledged row
	low         uint64    // as it was written last; 0: that may not have arrived
	ended       bool      // nothing will be appended to it
}

// OwnRow is a row of an own stream that was not settled when it was acknowledged, or a range of
// them.
type OwnRow struct {
	Stream    StreamID
	Seq, Last uint64    // the same number, unless it is unread
	Sent      time.Time // acknowledged, as was the last of a range

	state   rowState
	open    []*Append // its unsettled entries, while it is remembered
	unread  int       // rows of tables that its entries name, as far as known, while it is unread
	largest int       // of unread, what one row names at most
	apart   bool      // it is unread, and its rows are read one by one
	looks   int       // in succession that led to nothing
	due     time.Time // for the next look
	hurries int       // Owner.hurries when it was scheduled
	place   int       // in Owner.due; -1: it is looked at, or settled

	previous, next *OwnRow // of its stream
}

// rowState is what is in memory of a row.
type rowState uint8

const (
	// rowRemembered: its unsettled entries are, of which there are some. The row is settled with the
	// last of them.
	rowRemembered rowState = iota
	// rowUnread: only its number, or the first and last of a range, as there was no room for the
	// entries. A look reads them: it settles rows, or remembers them if there is room then.
	rowUnread
	// rowSettled: nothing. It has left its stream, or another range has taken it.
	rowSettled
)

// newRow is a remembered row without entries, which is in no stream yet.
func newRow(id StreamID, seq uint64, sent time.Time) *OwnRow {
	return &OwnRow{Stream: id, Seq: seq, Last: seq, Sent: sent, place: -1}
}

// size is how many numbers a range has.
func (r *OwnRow) size() int { return int(r.Last - r.Seq + 1) }

// Before and Placed are for Owner.due.
func (r *OwnRow) Before(other *OwnRow) bool { return r.due.Before(other.due) }
func (r *OwnRow) Placed(at int)             { r.place = at }

// insert puts a row into its stream before another one; nil: at the end. The caller holds o.mu.
func (o *Owner) insert(row, before *OwnRow) {
	s := o.streams[row.Stream]
	row.next, row.previous = before, s.last
	if before != nil {
		row.previous = before.previous
		before.previous = row
	} else {
		s.last = row
	}
	if row.previous != nil {
		row.previous.next = row
	} else {
		s.first = row
	}
	if row.state == rowRemembered {
		o.remembered++
		return
	}
	at, _ := slices.BinarySearchFunc(s.ranges, row.Seq, func(r *OwnRow, seq uint64) int {
		if r.Seq < seq {
			return -1
		}
		return 1
	})
	s.ranges = slices.Insert(s.ranges, at, row)
}

// unlink takes a row out of its stream. The caller holds o.mu, and says what has become of it.
func (o *Owner) unlink(row *OwnRow) {
	s := o.streams[row.Stream]
	if s.visited == row {
		s.visited = row.next
	}
	if row.previous != nil {
		row.previous.next = row.next
	} else {
		s.first = row.next
	}
	if row.next != nil {
		row.next.previous = row.previous
	} else {
		s.last = row.previous
	}
	if row.previous, row.next = nil, nil; row.state == rowRemembered {
		o.remembered--
	} else {
		at := slices.Index(s.ranges, row)
		s.ranges = slices.Delete(s.ranges, at, at+1)
	}
	if row.place >= 0 {
		o.due.Remove(row.place)
	}
}

// remove notes that a row is settled. The caller holds o.mu.
func (o *Owner) remove(row *OwnRow) {
	if row.state == rowSettled {
		return
	}
	o.unlink(row)
	row.state = rowSettled
	o.unname(row.unread)
}
