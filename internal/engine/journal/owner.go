package journal

import (
	"slices"
	"sync"
	"time"

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
// Memory is bounded: beyond MaxOwned transactions only numbers of rows are in memory, as spans, and
// the rows are read again when they are due (unread.go). Commits take the same lock as everything
// here, so nothing walks through all rows: a critical section visits what one row, transaction,
// cell or piece holds.

// MaxOwned is how many unsettled transactions a client remembers, each once for every row of a
// stream that holds it.
const MaxOwned = 50_000

// Owner keeps what a client knows of its own entries. It is safe for concurrent use.
type Owner struct {
	// Hurried receives when [Owner.Hurry] has made rows due.
	Hurried chan struct{}

	mu      sync.Mutex
	limit   int // MaxOwned, but in tests
	streams map[StreamID]*ownStream
	cells   map[model.Cell][]*waiting // for the end of a notification
	owned   int                       // entries that remembered rows hold, once for each row
	agenda
	gauges

	appended uint64 // rows of tables that entries have named
	looked   int    // what endWaiting has looked at, for tests
}

// waiting is an entry that waits for the end of a notification.
type waiting struct {
	*Append
	since time.Time // the notification was written
	mark  mark      // in gauges.notifying
}

// ownEntry is what the owner knows of an entry. Owner.mu guards it.
type ownEntry struct {
	state      entryState
	in         []*OwnRow             // remembered rows that hold it, of which the first looks; none once it is settled
	commitTS   tso.Timestamp         // 0: it has not committed
	unfinished int                   // rows that are left to phase two, which is in flight
	cells      []model.Cell          // that carry its notifications, as far as phase two has written them
	copied     int                   // how often the entry was appended before
	overwrites func() []CommittedRow // to be told; nil: nothing
	unlocked   bool                  // a look has found that it is decided, and that no lock of it is left
	found      Backlog               // by the last look
	marks      gaugeMarks            // while a row holds it
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
	return &Owner{Hurried: make(chan struct{}, 1), limit: MaxOwned, streams: map[StreamID]*ownStream{},
		cells: map[model.Cell][]*waiting{}, gauges: gauges{notifying: map[column]*earliest{}}}
}

// Limit has n transactions remembered in place of MaxOwned.
func (o *Owner) Limit(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limit = n
}

// sent notes a row that the store has acknowledged.
func (o *Owner) sent(id StreamID, seq uint64, parts []*part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stream(id)
	s.next = seq + 1
	for _, p := range parts {
		o.appended += uint64(len(p.entry.Rows))
	}
	now := time.Now()
	if o.owned >= o.limit {
		s.unread.sent(seq, now)
		return
	}
	row := newRow(id, seq, now)
	for _, p := range parts {
		switch n := len(row.open); {
		case p.of.state == entrySettled:
		case n == 0 || row.open[n-1] != p.of: // else it is another part of the same entry
			o.hold(row, p.of)
		}
	}
	if len(row.open) > 0 {
		o.came++
		o.remember(s, row, o.came, now)
	}
}

// stream is an own stream. The caller holds o.mu.
func (o *Owner) stream(id StreamID) *ownStream {
	s := o.streams[id]
	if s == nil {
		s = &ownStream{id: id, rows: map[uint64]*OwnRow{}, next: 1, low: 1}
		o.streams[id] = s
	}
	return s
}

// lost notes a row that was not acknowledged, and may still arrive.
func (o *Owner) lost(id StreamID, seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream(id).leaveOpen(seq)
}

// hold notes that a row holds an unsettled entry. The caller holds o.mu.
func (o *Owner) hold(row *OwnRow, w *Append) {
	row.open = append(row.open, w)
	w.in = append(w.in, row)
	o.owned++
	o.gauge(w)
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
		x := &waiting{Append: w, since: time.Now()}
		o.cells[c] = append(o.cells[c], x)
		o.waits(c, x)
	}
	if len(cells) > 0 {
		o.notified(w.in[0])
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
	gone := func(w *waiting) bool { return w.commitTS <= upTo && !w.since.After(asked) }
	var cleared []*Append
	for _, x := range o.cells[c] {
		if gone(x) {
			cleared = append(cleared, x.Append)
		}
	}
	o.endWaiting(c, gone) // of all at once, because a cell may have many
	for _, w := range cleared {
		o.clear(w, c)
		o.check(w)
	}
}

// clear ends the waiting of a transaction for a cell. The caller holds o.mu.
func (o *Owner) clear(w *Append, c model.Cell) {
	w.cells = slices.DeleteFunc(w.cells, func(x model.Cell) bool { return x == c })
	o.endWaiting(c, func(x *waiting) bool { return x.Append == w })
}

// endWaiting ends the waiting for a cell of those that over accepts. The caller holds o.mu.
func (o *Owner) endWaiting(c model.Cell, over func(*waiting) bool) {
	o.looked += len(o.cells[c])
	o.cells[c] = slices.DeleteFunc(o.cells[c], func(x *waiting) bool {
		if !over(x) {
			return false
		}
		o.waitsNoMore(c, x)
		return true
	})
	if len(o.cells[c]) == 0 {
		delete(o.cells, c)
	}
}

// check settles a transaction that nothing is left of. The caller holds o.mu.
func (o *Owner) check(w *Append) {
	if w.state != entryCommitted || w.unfinished > 0 {
		return
	}
	o.tell(w)
	if len(w.cells) == 0 {
		o.settle(w)
	}
}

// hasLocks reports whether locks that an entry leads to may be left.
func (w *Append) hasLocks() bool {
	phaseTwoDone := w.state == entryCommitted && w.unfinished <= 0
	return !phaseTwoDone && !w.unlocked
}

// settle notes that an entry is settled, in every row that holds it. The caller holds o.mu.
func (o *Owner) settle(w *Append) {
	if w.state == entrySettled {
		return
	}
	w.state = entrySettled
	o.gauge(w)
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

// Low returns how far streams are settled, for those in which that has moved since the last call.
// One caller at a time writes them, and reports those that are lost.
func (o *Owner) Low() map[StreamID]Low {
	o.mu.Lock()
	defer o.mu.Unlock()
	moved := map[StreamID]Low{}
	for id, s := range o.streams {
		low := s.first()
		switch {
		case low > s.low:
			s.low, moved[id] = low, Low{low, s.open.With(Open{})}
		case s.ended && s.settled():
			delete(o.streams, id) // its position was written by the last call's caller
		}
	}
	return moved
}

// Crowded returns streams of which so many rows are open that collected ones should be forgotten.
// It returns each once in FirstLook.
func (o *Owner) Crowded(now time.Time) (crowded []StreamID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, s := range o.streams {
		if len(s.open.spans) > maxOpen/2 && now.Sub(s.asked) >= FirstLook {
			s.asked = now
			crowded = append(crowded, id)
		}
	}
	return crowded
}

// Collected says that the rows of a stream below a number are gone.
func (o *Owner) Collected(id StreamID, first uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		s.open.remove(1, first)
	}
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
func (o *Owner) LowLost(low map[StreamID]Low) {
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
