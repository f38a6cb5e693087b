package store

import (
	"cmp"
	"slices"
)

// Requests for the rows of a table are sent apart by tablet. Bigtable serves the keys of one request
// one after another, so a tablet that is slow would hold up every row that is sent with one of its
// own. Each tablet has a lane: the items that wait for it, and at most laneInFlight requests in
// flight. An item that finds none is sent at once; what arrives meanwhile forms the next request.
//
// While the bounds of the tablets are unknown a table has one lane. Its owner learns them when that
// is not enough, which is when a request is full or slow.
const (
	laneInFlight  = 2
	tableInFlight = 32 // requests in flight for all tablets of a table
)

// Load is what an item adds to a request, or how much one request carries.
type Load struct{ Rows, Bytes, Mutations int }

// Plus is both together.
func (l Load) Plus(m Load) Load {
	return Load{l.Rows + m.Rows, l.Bytes + m.Bytes, l.Mutations + m.Mutations}
}

// Exceeds reports whether l is more than one request carries. Most without Mutations bounds none.
func (l Load) Exceeds(most Load) bool {
	return l.Rows > most.Rows || l.Bytes > most.Bytes || most.Mutations > 0 && l.Mutations > most.Mutations
}

// Lanes is the lanes of one table, or of one kind of request to it. Its owner's lock guards it, its
// lanes and its slots. The zero Lanes with the exported fields set is empty.
type Lanes[T any] struct {
	Tablets *Tablets
	Table   string
	Most    Load // of one request; an item beyond it is sent alone
	Of      func(T) (row string, load Load)

	bounds   *tableBounds
	learning bool // a caller is learning the bounds
	inFlight int
	turns    int                 // slots that were given
	last     lane[T]             // of the last tablet, or of all
	others   map[string]*lane[T] // by the end of the tablet; only those in use
}

// lane is one tablet's.
type lane[T any] struct {
	end      string
	waiting  []T
	inFlight int
	starting int // slots whose holder has yet to look at waiting
	turn     int // when it was given its last slot, or began
}

// Slot is the right to have a request in flight in a lane.
type Slot[T any] struct {
	lanes *Lanes[T]
	lane  *lane[T]
	first bool // nothing has been taken
	left  bool
}

func (l *Lanes[T]) of(row string) *lane[T] {
	if l.bounds == nil {
		l.bounds = l.Tablets.of(l.Table)
	}
	end := l.bounds.end(row)
	if end == "" {
		return &l.last
	}
	of := l.others[end]
	if of == nil {
		if l.others == nil {
			l.others = map[string]*lane[T]{}
		}
		of = &lane[T]{end: end, turn: l.turns}
		l.others[end] = of
	}
	return of
}

// Claim returns a slot for an item that is sent alone, if nothing is in flight in its lane.
func (l *Lanes[T]) Claim(row string) (s Slot[T], ok bool) {
	of := l.of(row)
	if of.inFlight > 0 || len(of.waiting) > 0 || l.inFlight >= tableInFlight {
		return s, false
	}
	of.inFlight++
	l.inFlight++
	return Slot[T]{lanes: l, lane: of}, true
}

// Push lets an item wait. The caller begins the slots that Next returns.
func (l *Lanes[T]) Push(item T) {
	row, _ := l.Of(item)
	of := l.of(row)
	of.waiting = append(of.waiting, item)
}

// Next returns a slot for items that wait, unless those who have a slot will take all of them. nil:
// there is none to begin.
func (l *Lanes[T]) Next() *Slot[T] {
	if l.inFlight >= tableInFlight {
		return nil
	}
	of := l.next()
	if of == nil {
		return nil
	}
	of.inFlight++
	of.starting++
	l.inFlight++
	l.turns++
	of.turn = l.turns
	return &Slot[T]{lanes: l, lane: of, first: true}
}

// next is the lane that wants a slot most: the one with the fewest, and of those the one that has
// waited longest.
func (l *Lanes[T]) next() (next *lane[T]) {
	if l.wants(&l.last) {
		next = &l.last
	}
	for _, of := range l.others {
		if l.wants(of) && (next == nil || cmp.Or(cmp.Compare(of.inFlight, next.inFlight), cmp.Compare(of.turn, next.turn)) < 0) {
			next = of
		}
	}
	return next
}

func (l *Lanes[T]) wants(of *lane[T]) bool {
	return of.inFlight < laneInFlight && len(of.waiting) > of.starting*l.Most.Rows
}

// Take returns the items of the slot's next request. nil: none wait, a lane without a slot needs
// this one, or the slot was left, which it is now.
func (s *Slot[T]) Take() []T {
	of, served := s.lane, !s.first
	if s.first {
		s.first = false
		of.starting--
	}
	if s.left {
		return nil
	}
	if len(of.waiting) == 0 || served && s.lanes.starved() {
		s.Leave()
		return nil
	}
	n := s.lanes.fit(of.waiting)
	batch := of.waiting[:n:n]
	of.waiting = of.waiting[n:]
	return batch
}

// starved reports whether a lane needs a slot, has none and can get none.
func (l *Lanes[T]) starved() bool {
	if l.inFlight < tableInFlight {
		return false
	}
	of := l.next()
	return of != nil && of.inFlight == 0
}

// fit is how many of the items one request carries, at least one.
func (l *Lanes[T]) fit(items []T) int {
	var sum Load
	for i, item := range items {
		_, load := l.Of(item)
		if sum = sum.Plus(load); i > 0 && sum.Exceeds(l.Most) {
			return i
		}
	}
	return len(items)
}

// Leave gives the slot back. Later calls do nothing; the first returns true.
func (s *Slot[T]) Leave() bool {
	if s.left {
		return false
	}
	s.left = true
	s.lane.inFlight--
	s.lanes.inFlight--
	s.lanes.forget(s.lane)
	return true
}

// forget drops a lane that is not in use.
func (l *Lanes[T]) forget(of *lane[T]) {
	if of.end != "" && of.inFlight == 0 && len(of.waiting) == 0 && l.others[of.end] == of {
		delete(l.others, of.end)
	}
}

// Idle reports whether nothing is in flight or waits.
func (l *Lanes[T]) Idle() bool { return l.inFlight == 0 && l.Waiting() == 0 }

// Waiting counts the items that wait.
func (l *Lanes[T]) Waiting() int {
	n := len(l.last.waiting)
	for _, of := range l.others {
		n += len(of.waiting)
	}
	return n
}

// Full counts a request that has left items behind, and reports whether the table has had enough of
// them for bounds to be worth a request. Then the caller calls Learn and Cut; no other is told
// to meanwhile.
func (s *Slot[T]) Full() bool {
	l := s.lanes
	if len(s.lane.waiting) == 0 || l.bounds.full.Add(1) < fullRequests || l.learning || !l.bounds.due() {
		return false
	}
	l.learning = true
	return true
}

// Learn finds out where the table is cut, unless that is known. The caller does not hold the lock,
// and calls Cut afterwards.
func (l *Lanes[T]) Learn() {
	l.Tablets.learn(l.Table, l.Tablets.of(l.Table))
}

// Cut distributes the items that wait among the lanes anew.
func (l *Lanes[T]) Cut() {
	l.learning = false
	all := l.last.waiting
	l.last.waiting = nil
	for _, of := range l.others {
		all = append(all, of.waiting...)
		of.waiting = nil
	}
	for _, item := range all {
		l.Push(item)
	}
	for _, of := range l.others {
		l.forget(of)
	}
}

// Mixed reports whether the items are of several tablets.
func (l *Lanes[T]) Mixed(items []T) bool {
	first, _ := l.Of(items[0])
	end := l.Tablets.of(l.Table).end(first)
	return slices.ContainsFunc(items, func(item T) bool {
		row, _ := l.Of(item)
		return l.Tablets.of(l.Table).end(row) != end
	})
}
