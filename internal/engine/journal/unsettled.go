package journal

import (
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Backlog is what looks have found and is unprocessed; 0: nothing.
type Backlog struct {
	Notified tso.Timestamp // the earliest notification
	Taken    tso.Timestamp // the earliest one that a worker of this client takes
	Expired  tso.Timestamp // earliest end of an unresolved lock's time to live
}

// With is both.
func (b Backlog) With(o Backlog) Backlog {
	return Backlog{Earliest(b.Notified, o.Notified), Earliest(b.Taken, o.Taken), Earliest(b.Expired, o.Expired)}
}

// Earliest is the lesser of two timestamps of which 0 stands for none.
func Earliest(a, b tso.Timestamp) tso.Timestamp {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Unsettled sums up what of a client's own streams is unsettled.
type Unsettled struct {
	Rows    int           // of the journal; of a range, all
	Oldest  tso.Timestamp // least start timestamp of a remembered entry; 0: none
	Behind  uint64        // rows from the low positions on, settled ones among them
	Backlog               // of the remembered entries
}

// Found notes what a look at an entry has found, in place of what the last one had.
func (o *Owner) Found(w *Append, b Backlog) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.found = b
	o.gauge(w)
}

// gauge counts what looks have found of an entry while a row holds it. The caller holds o.mu.
func (o *Owner) gauge(w *Append) {
	var b Backlog
	if len(w.in) > 0 && w.state != entrySettled {
		b = w.found
	}
	for i, ts := range [...]tso.Timestamp{b.Notified, b.Taken, b.Expired} {
		o.found[i].set(&w.marks[i], ts)
	}
}

// Unsettled is for gauges: it says how things stand now. It visits streams and ranges only.
func (o *Owner) Unsettled() (u Unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u.Rows = o.remembered
	for _, s := range o.streams {
		if s.first == nil {
			continue
		}
		u.Behind += s.next - s.first.Seq
		for _, r := range s.ranges {
			u.Rows += r.size()
		}
	}
	u.Oldest = o.oldest.first()
	u.Backlog = Backlog{o.found[0].first(), o.found[1].first(), o.found[2].first()}
	return u
}

// OldestNotified is the earliest timestamp at which a transaction of this client has notified
// something unprocessed, and something in a column that takes accepts, whatever the row; 0: there
// is none. It visits columns only.
func (o *Owner) OldestNotified(takes func(model.Cell) bool) (oldest, taken tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of, h := range o.notifying {
		first := h.first()
		oldest = Earliest(oldest, first)
		if takes(model.Cell{Table: of.table, Column: of.name}) {
			taken = Earliest(taken, first)
		}
	}
	return oldest, taken
}

// earliest keeps timestamps of which the earliest is at hand.
type earliest struct{ ordered.Heap[*mark] }

// mark is a timestamp in an earliest. The zero value is in none.
type mark struct {
	ts    tso.Timestamp
	place int // from 1; 0: it is in none
}

// set puts a mark at a timestamp; 0: it leaves.
func (e *earliest) set(m *mark, ts tso.Timestamp) {
	was := m.place
	switch m.ts = ts; {
	case was > 0 && ts == 0:
		e.Remove(was - 1)
	case was > 0:
		e.Fix(was - 1)
	case ts != 0:
		e.Push(m)
	}
}

// first is the earliest timestamp; 0: there is none.
func (e *earliest) first() tso.Timestamp {
	if e.Len() == 0 {
		return 0
	}
	return e.First().ts
}

// Before and Placed are for earliest.
func (m *mark) Before(other *mark) bool { return m.ts < other.ts }
func (m *mark) Placed(at int)           { m.place = at + 1 }
