package journal

import (
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What a client knows of its own entries (J4). An entry is settled when its transaction is decided
// and its rows then hold no lock of it, and no notification that it has written:
//
//	committed    phase two acknowledged every row, and the notifications were cleared here
//	rolled back  the clean-up erased every lock
//
// Most entries are settled by what this process does anyway, without a request. For the others,
// whose notifications another process works on or whose requests have failed, the owner looks at
// the rows (package settle). Every acknowledged row of a stream below its low position is settled.
//
// Memory is bounded: beyond MaxOwned transactions a row of a stream is only remembered by its
// number, and read again when it is due (due.go).

// MaxOwned is how many unsettled transactions a client remembers.
const MaxOwned = 50_000

// Owner keeps what a client knows of its own entries. It is safe for concurrent use.
type Owner struct {
	// Hurried receives when [Owner.Hurry] has made rows due.
	Hurried chan struct{}

	mu      sync.Mutex
	streams map[StreamID]*ownStream
	cells   map[model.Cell][]waiting // for the end of a notification
	owned   int                      // entries that remembered rows hold, once for each row
	due     ordered.Heap[*OwnRow]    // unsettled rows, but those that are looked at

	appended uint64 // rows of tables that entries have named
	named    int    // of these by unsettled entries
	rested   int    // named, at most, when a row was scheduled; since most of it was settled
}

// waiting is an entry that waits for the end of a notification.
type waiting struct {
	*Append
	since time.Time // the notification was written
}

// ownStream is a stream that this client has appended to.
type ownStream struct {
	rows    []*OwnRow // in order; the first is not settled
	settled int       // of rows
	next    uint64    // above every acknowledged row
	low     uint64    // as it was written last; 0: that may not have arrived
	ended   bool      // nothing will be appended to it
}

// OwnRow is a row of an own stream that was not settled when it was acknowledged.
type OwnRow struct {
	Stream StreamID
	Seq    uint64
	Sent   time.Time // acknowledged

	state  rowState
	open   []*Append // its unsettled entries, while it is remembered
	unread int       // rows of tables that its entries name, while it is unread
	looks  int       // in succession that led to nothing
	due    time.Time // for the next look
	place  int       // in Owner.due; -1: it is looked at, or settled
}

// rowState is what is in memory of a row.
type rowState uint8

const (
	// rowRemembered: its unsettled entries are, of which there are some. The row is settled with the
	// last of them.
	rowRemembered rowState = iota
	// rowUnread: only its number, as there was no room for its entries. A look reads them: it
	// settles the row, or remembers it if there is room then.
	rowUnread
	// rowSettled: nothing; it stands in its stream until the rows before it are settled.
	rowSettled
)

// ownEntry is what the owner knows of an entry. Owner.mu guards it.
type ownEntry struct {
	state      entryState
	in         []*OwnRow     // remembered rows that hold it, of which the first looks; none once it is settled
	commitTS   tso.Timestamp // 0: it has not committed
	unfinished int           // rows that are left to phase two, which is in flight
	cells      []model.Cell  // that carry its notifications, as far as phase two has written them
	copied     int           // how often the entry was appended before
	found      Backlog       // by the last look
}

// entryState is what has become of an entry's transaction.
type entryState uint8

const (
	// entryOpen: it may still commit, or was neither committed nor rolled back here: a look decides.
	// commitTS, unfinished and cells are zero.
	entryOpen entryState = iota
	// entryCommitted: it committed at commitTS. It is settled once unfinished is 0 and cells are
	// none.
	entryCommitted
	// entryDoubtful: it committed, and phase two has failed for a row. Only a look settles it.
	entryDoubtful
	// entrySettled: nothing of it is left. No row holds it, and it waits for no cell.
	entrySettled
)

// NewOwner knows of no entry.
func NewOwner() *Owner {
	return &Owner{Hurried: make(chan struct{}, 1), streams: map[StreamID]*ownStream{}, cells: map[model.Cell][]waiting{}}
}

// sent notes a row that the store has acknowledged.
func (o *Owner) sent(id StreamID, seq uint64, parts []*part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.streams[id]
	if s == nil {
		s = &ownStream{next: 1, low: 1}
		o.streams[id] = s
	}
	s.next = seq + 1
	row := &OwnRow{Stream: id, Seq: seq, Sent: time.Now()}
	if o.owned >= MaxOwned {
		row.state = rowUnread
	}
	for _, p := range parts {
		o.appended += uint64(len(p.entry.Rows))
		switch n := len(row.open); {
		case row.state == rowUnread:
			row.unread += len(p.entry.Rows)
		case p.of.state == entrySettled:
		case n == 0 || row.open[n-1] != p.of: // else it is another part of the same entry
			o.hold(row, p.of)
		}
	}
	if row.state == rowRemembered && len(row.open) == 0 {
		return
	}
	o.named += row.unread
	s.rows = append(s.rows, row)
	o.schedule(row, row.Sent)
}

// hold notes that a row holds an unsettled entry. The caller holds o.mu.
func (o *Owner) hold(row *OwnRow, w *Append) {
	if len(w.in) == 0 {
		o.named += len(w.entry.Rows)
	}
	row.open = append(row.open, w)
	w.in = append(w.in, row)
	o.owned++
}

// Committed says that the transaction committed at ts: rows are left to phase two, and cells carry
// notifications at ts. Those that phase two writes come with RowDone.
func (o *Owner) Committed(w *Append, ts tso.Timestamp, rows int, cells []model.Cell) {
	if w == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.state == entrySettled {
		return
	}
	w.state, w.commitTS, w.unfinished = entryCommitted, ts, rows
	o.await(w, cells)
	o.check(w)
}

// await has a transaction wait for the end of the notifications of cells, which were written. The
// caller holds o.mu.
func (o *Owner) await(w *Append, cells []model.Cell) {
	w.cells = append(w.cells, cells...)
	if len(w.in) == 0 { // a look at its row has to find them gone
		return
	}
	for _, c := range cells {
		o.cells[c] = append(o.cells[c], waiting{w, time.Now()})
	}
}

// RowDone says that phase two is done with a row of the transaction, in which cells carry
// notifications now. After an error the owner has to look.
func (o *Owner) RowDone(w *Append, err error, cells ...model.Cell) {
	if w == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.state == entrySettled {
		return
	}
	w.unfinished--
	if err != nil {
		w.state = entryDoubtful
	} else {
		o.await(w, cells)
	}
	o.check(w)
}

// RolledBack says that the transaction can never commit and that none of its locks is left.
func (o *Owner) RolledBack(w *Append) {
	if w == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.state == entryOpen {
		o.settle(w)
	}
}

// Cleared says that the notifications of a cell up to upTo are gone that were there at asked. Phase
// two may have written others since, although their timestamps are lower: another client had rolled
// the row forward, and they had been dealt with.
func (o *Owner) Cleared(c model.Cell, upTo tso.Timestamp, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gone := func(w waiting) bool { return w.commitTS <= upTo && !w.since.After(asked) }
	waited := slices.Clone(o.cells[c])
	// Delete all at once, because a cell may have many.
	if o.cells[c] = slices.DeleteFunc(o.cells[c], gone); len(o.cells[c]) == 0 {
		delete(o.cells, c)
	}
	for _, w := range waited {
		if gone(w) {
			o.clear(w.Append, c)
			o.check(w.Append)
		}
	}
}

// clear ends the waiting of a transaction for a cell. The caller holds o.mu.
func (o *Owner) clear(w *Append, c model.Cell) {
	same := func(x model.Cell) bool { return x == c }
	w.cells = slices.DeleteFunc(w.cells, same)
	o.cells[c] = slices.DeleteFunc(o.cells[c], func(x waiting) bool { return x.Append == w })
	if len(o.cells[c]) == 0 {
		delete(o.cells, c)
	}
}

// check settles a transaction that nothing is left of. The caller holds o.mu.
func (o *Owner) check(w *Append) {
	if w.state == entryCommitted && w.unfinished <= 0 && len(w.cells) == 0 {
		o.settle(w)
	}
}

// settle notes that an entry is settled, in every row that holds it. The caller holds o.mu.
func (o *Owner) settle(w *Append) {
	if w.state == entrySettled {
		return
	}
	w.state = entrySettled
	if len(w.in) > 0 {
		o.unname(len(w.entry.Rows))
	}
	for _, c := range slices.Clone(w.cells) {
		o.clear(w, c)
	}
	for _, row := range w.in {
		if at := slices.Index(row.open, w); at >= 0 {
			row.open = slices.Delete(row.open, at, at+1)
			o.owned--
		}
		if len(row.open) == 0 {
			o.remove(row)
		}
	}
	w.in = nil
}

// remove notes that a row is settled. The caller holds o.mu.
func (o *Owner) remove(row *OwnRow) {
	if row.state == rowSettled {
		return
	}
	row.state = rowSettled
	if row.place >= 0 {
		o.due.Remove(row.place)
	}
	o.unname(row.unread)
	o.streams[row.Stream].trim()
}

// trim forgets settled rows: the first ones at once, others when they are most of all.
func (s *ownStream) trim() {
	s.settled++
	n := 0
	for n < len(s.rows) && s.rows[n].state == rowSettled {
		s.rows[n] = nil
		n++
	}
	s.rows = s.rows[n:]
	if s.settled -= n; s.settled > len(s.rows)/2 {
		s.rows = slices.Clone(slices.DeleteFunc(s.rows, func(r *OwnRow) bool { return r.state == rowSettled }))
		s.settled = 0
	}
}

// Low returns the position below which all of a stream is settled, for streams in which it has
// moved since the last call. One caller at a time writes them, and reports those that are lost.
func (o *Owner) Low() map[StreamID]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	moved := map[StreamID]uint64{}
	for id, s := range o.streams {
		low := s.next
		if len(s.rows) > 0 {
			low = s.rows[0].Seq
		}
		switch {
		case low > s.low:
			s.low, moved[id] = low, low
		case s.ended && len(s.rows) == 0:
			delete(o.streams, id) // its position was written by the last call's caller
		}
	}
	return moved
}

// ended says that nothing more will be appended to a stream.
func (o *Owner) ended(id StreamID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		s.ended = true
	}
}

// LowLost has low positions written again that may not have arrived.
func (o *Owner) LowLost(low map[StreamID]uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range low {
		if s := o.streams[id]; s != nil { // Close writes positions too
			s.low = 0
		}
	}
}

// Appended is how many rows of tables the entries have named that were appended so far.
func (o *Owner) Appended() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.appended
}

// Owns reports whether this client appends to a stream, or has not settled it.
func (o *Owner) Owns(id StreamID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.streams[id] != nil
}

// OldestNotified is the earliest timestamp at which a transaction of this client has notified
// something unprocessed, and something of that which takes accepts; 0: there is none. It visits
// everything owned, so it is for gauges.
func (o *Owner) OldestNotified(takes func(model.Cell) bool) (oldest, taken tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c, list := range o.cells {
		accepted := takes(c)
		for _, w := range list {
			if oldest = Earliest(oldest, w.commitTS); accepted {
				taken = Earliest(taken, w.commitTS)
			}
		}
	}
	return oldest, taken
}
