package store

import (
	"cmp"
	"slices"
)

// Requests for the rows of a table are sent apart by tablet. Bigtable serves the keys of one
// request one after another, so a tablet that is slow would hold up every row that is sent with one
// of its own. Each tablet has a queue: the items that wait for it, and at most tabletInFlight
// requests in flight. An item that finds none is sent at once; what arrives meanwhile forms the
// next request.
//
// While the bounds of the tablets are unknown a table has one queue. Its owner learns them when
// that is not enough, which is when a request is full or slow.
const (
	tabletInFlight = 2
	tableInFlight  = 32 // requests in flight for all tablets of a table
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

// TabletQueues is the queues of one table, or of one kind of request to it. Its owner's lock guards
// it, its queues and its slots. The zero TabletQueues with the exported fields set is empty.
type TabletQueues[T any] struct {
	Tablets *Tablets
	Table   string
	Most    Load // of one request; an item beyond it is sent alone
	Of      func(T) (row string, load Load)

	bounds   *tableBounds
	learning bool                       // a caller is learning the bounds
	inFlight int                        // slots that are held, of all queues
	given    int                        // slots ever, by which queues come after one another
	last     tabletQueue[T]             // of the last tablet, or of all
	others   map[string]*tabletQueue[T] // by the end of the tablet; only those in use
}

// tabletQueue is one tablet's.
type tabletQueue[T any] struct {
	end      string
	waiting  []T
	inFlight int // slots that are held
	starting int // of these, whose holder has yet to look at waiting
	served   int // when it was given its last slot, or began, in slots given
}

// Slot is the right to have a request in flight for a tablet.
type Slot[T any] struct {
	queues *TabletQueues[T]
	queue  *tabletQueue[T]
	state  slotState
}

type slotState int

const (
	serving  slotState = iota // its holder has taken items, or sends one of its own
	starting                  // its holder has yet to look: it counts in the queue's starting
	left                      // it was given back
)

func (l *TabletQueues[T]) of(row string) *tabletQueue[T] {
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
			l.others = map[string]*tabletQueue[T]{}
		}
		of = &tabletQueue[T]{end: end, served: l.given}
		l.others[end] = of
	}
	return of
}

// Claim returns a slot for an item that is sent alone, if nothing is in flight for its tablet.
func (l *TabletQueues[T]) Claim(row string) (s Slot[T], ok bool) {
	of := l.of(row)
	if of.inFlight > 0 || len(of.waiting) > 0 || l.inFlight >= tableInFlight {
		return s, false
	}
	of.inFlight++
	l.inFlight++
	return Slot[T]{queues: l, queue: of}, true
}

// Push lets an item wait. The caller begins the slots that Next returns.
func (l *TabletQueues[T]) Push(item T) {
	row, _ := l.Of(item)
	of := l.of(row)
	of.waiting = append(of.waiting, item)
}

// Next returns a slot for items that wait, unless those who have a slot will take all of them. nil:
// there is none to begin.
func (l *TabletQueues[T]) Next() *Slot[T] {
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
	l.given++
	of.served = l.given
	return &Slot[T]{queues: l, queue: of, state: starting}
}

// next is the queue that wants a slot most: the one with the fewest, and of those the one that has
// waited longest.
func (l *TabletQueues[T]) next() (next *tabletQueue[T]) {
	if l.wants(&l.last) {
		next = &l.last
	}
	for _, of := range l.others {
		if l.wants(of) && (next == nil || cmp.Or(cmp.Compare(of.inFlight, next.inFlight), cmp.Compare(of.served, next.served)) < 0) {
			next = of
		}
	}
	return next
}

func (l *TabletQueues[T]) wants(of *tabletQueue[T]) bool {
	return of.inFlight < tabletInFlight && len(of.waiting) > of.starting*l.Most.Rows
}

// Take returns the items of the slot's next request. nil: none wait, a queue without a slot needs
// this one, or the slot was left, which it is now.
func (s *Slot[T]) Take() []T {
	of := s.queue
	switch s.state {
	case left:
		return nil
	case starting:
		s.state = serving
		of.starting--
	case serving:
		if s.queues.starved() {
			s.Leave()
			return nil
		}
	}
	if len(of.waiting) == 0 {
		s.Leave()
		return nil
	}
	n := s.queues.fit(of.waiting)
	if n == len(of.waiting) {
		batch := of.waiting
		of.waiting = nil
		return batch
	}
	// What waits must not keep alive what was sent.
	batch := slices.Clone(of.waiting[:n])
	clear(of.waiting[:n])
	of.waiting = of.waiting[n:]
	return batch
}

// starved reports whether a queue needs a slot, has none and can get none.
func (l *TabletQueues[T]) starved() bool {
	if l.inFlight < tableInFlight {
		return false
	}
	of := l.next()
	return of != nil && of.inFlight == 0
}

// fit is how many of the items one request carries, at least one.
func (l *TabletQueues[T]) fit(items []T) int {
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
	if s.state == left {
		return false
	}
	if s.state == starting {
		s.queue.starting--
	}
	s.state = left
	s.queue.inFlight--
	s.queues.inFlight--
	s.queues.forget(s.queue)
	return true
}

// forget drops a queue that is not in use.
func (l *TabletQueues[T]) forget(of *tabletQueue[T]) {
	if of.end != "" && of.inFlight == 0 && len(of.waiting) == 0 && l.others[of.end] == of {
		delete(l.others, of.end)
	}
}

// Idle reports whether nothing is in flight or waits.
func (l *TabletQueues[T]) Idle() bool { return l.inFlight == 0 && l.Waiting() == 0 }

// Waiting counts the items that wait.
func (l *TabletQueues[T]) Waiting() int {
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
	l := s.queues
	if len(s.queue.waiting) == 0 || l.bounds.full.Add(1) < fullRequests || l.learning || !l.bounds.due() {
		return false
	}
	l.learning = true
	return true
}

// Learn finds out where the table is cut, unless that is known. The caller does not hold the lock,
// and calls Cut afterwards.
func (l *TabletQueues[T]) Learn() {
	l.Tablets.learn(l.Table, l.Tablets.of(l.Table))
}

// Cut distributes the items that wait among the queues anew.
func (l *TabletQueues[T]) Cut() {
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
func (l *TabletQueues[T]) Mixed(items []T) bool {
	first, _ := l.Of(items[0])
	end := l.Tablets.of(l.Table).end(first)
	return slices.ContainsFunc(items, func(item T) bool {
		row, _ := l.Of(item)
		return l.Tablets.of(l.Table).end(row) != end
	})
}
