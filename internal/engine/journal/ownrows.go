package journal

import "time"

// ownStream is a stream that this client has appended to, with its unsettled rows. What is settled
// leaves at once.
type ownStream struct {
	id        StreamID
	rows      map[uint64]*OwnRow // the remembered ones, by their numbers
	order     earliest           // of the same
	unread    unread
	next      uint64         // above every acknowledged row
	low       uint64         // as it was written last; 0: that may not have arrived
	open      Open           // rows that count as settled, and may have left locks
	asked     time.Time      // for the first row of the stream
	committed committedBatch // to be told with its next row
	ended     bool           // nothing will be appended to it
}

// OwnRow is a row of an own stream that was not settled when it was acknowledged, and whose
// unsettled entries are remembered. It is settled with the last of them.
type OwnRow struct {
	Stream StreamID
	Seq    uint64
	Sent   time.Time // acknowledged

	open  []*Append // its unsettled entries
	looks int       // in succession that led to nothing
	due   time.Time // for the next look
	place int       // in agenda; -1: it is looked at, or settled

	inOrder   mark // of its stream, by the number
	inNoticed mark // in agenda.noticed
	noticed   time.Time
}

func newRow(id StreamID, seq uint64, sent time.Time) *OwnRow {
	row := &OwnRow{Stream: id, Seq: seq, Sent: sent, place: -1}
	row.inNoticed.row = row
	return row
}

// first is the number of the first row that is not settled; that of the next one, if all are.
func (s *ownStream) first() uint64 {
	first := s.next
	if s.order.Len() > 0 {
		first = min(first, uint64(s.order.first()))
	}
	if len(s.unread.spans) > 0 {
		first = min(first, s.unread.spans[0].from)
	}
	return first
}

// settled reports whether all rows are.
func (s *ownStream) settled() bool { return len(s.rows) == 0 && len(s.unread.spans) == 0 }

// leaveOpen notes that a row counts as settled, and may have left locks.
func (s *ownStream) leaveOpen(seq uint64) {
	s.open.add(seq, seq+1)
	s.open.narrow(maxOpen)
}

// remember adds a row that holds entries to its stream, and schedules it. The caller holds o.mu.
func (o *Owner) remember(s *ownStream, row *OwnRow, came int64, from time.Time) {
	s.rows[row.Seq] = row
	s.order.set(&row.inOrder, int64(row.Seq))
	o.schedule(row, came, from)
}

// remove notes that a remembered row is settled. The caller holds o.mu.
func (o *Owner) remove(row *OwnRow) {
	s := o.streams[row.Stream]
	if s.rows[row.Seq] != row {
		return
	}
	delete(s.rows, row.Seq)
	s.order.set(&row.inOrder, 0)
	o.leave(row)
}
