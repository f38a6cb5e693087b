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
	Rows    int           // of the journal; where they are unread, some settled ones among them
	Oldest  tso.Timestamp // least start timestamp of a remembered entry; 0: none
	Behind  uint64        // rows from the low positions on, settled ones among them
	Backlog               // of the remembered entries
}

// gauges keep what [Unsettled] tells, as it changes.
type gauges struct {
	notifying map[column]*earliest // commit timestamps of entries that wait for cells
	started   earliest             // start timestamps of remembered entries
	found     [3]earliest          // their Backlog
}

// gaugeMarks are of an entry.
type gaugeMarks struct {
	started mark
	found   [3]mark
}

// column is one of a table.
type column struct{ table, name string }

// Found notes what a look at an entry has found, in place of what the last one had; unlocked: it is
// decided, and no lock of it is left.
func (o *Owner) Found(w *Append, b Backlog, unlocked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.unlocked = w.unlocked || unlocked
	o.find(w, b)
}

// find is Found. The caller holds o.mu.
func (o *Owner) find(w *Append, b Backlog) {
	w.found = b
	o.gauge(w)
	if b.Notified != 0 && len(w.in) > 0 {
		o.notified(w.in[0])
	}
}

// gauge has an entry counted while a row holds it.
func (g *gauges) gauge(w *Append) {
	var started tso.Timestamp
	var b Backlog
	if len(w.in) > 0 && w.state != entrySettled {
		started, b = w.entry.StartTS, w.found
	}
	g.started.set(&w.marks.started, int64(started))
	for i, ts := range [...]tso.Timestamp{b.Notified, b.Taken, b.Expired} {
		g.found[i].set(&w.marks.found[i], int64(ts))
	}
}

// waits has an entry counted that waits for the end of a notification.
func (g *gauges) waits(c model.Cell, w *waiting) {
	of := column{c.Table, c.Column}
	if g.notifying[of] == nil {
		g.notifying[of] = &earliest{}
	}
	g.notifying[of].set(&w.mark, int64(w.commitTS))
}

// waitsNoMore is the end of waits.
func (g *gauges) waitsNoMore(c model.Cell, w *waiting) {
	of := column{c.Table, c.Column}
	if g.notifying[of].set(&w.mark, 0); g.notifying[of].Len() == 0 {
		delete(g.notifying, of)
	}
}

// Unsettled is for gauges: it says how things stand now. It visits streams, and their spans.
func (o *Owner) Unsettled() (u Unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		u.Rows += len(s.rows) + s.unread.spans.size()
		u.Behind += s.next - s.first()
	}
	u.Oldest = tso.Timestamp(o.started.first())
	u.Backlog = Backlog{tso.Timestamp(o.found[0].first()), tso.Timestamp(o.found[1].first()), tso.Timestamp(o.found[2].first())}
	return u
}

// OldestNotified is the earliest timestamp at which a transaction of this client has notified
// something unprocessed, and something in a column that takes accepts, whatever the row; 0: there
// is none. It visits columns.
func (o *Owner) OldestNotified(takes func(model.Cell) bool) (oldest, taken tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of, e := range o.notifying {
		first := tso.Timestamp(e.first())
		if oldest = Earliest(oldest, first); takes(model.Cell{Table: of.table, Column: of.name}) {
			taken = Earliest(taken, first)
		}
	}
	return oldest, taken
}

// earliest is marks of which the least is at hand.
type earliest struct{ ordered.Heap[*mark] }

// mark is a number in an earliest. The zero value is in none.
type mark struct {
	at    int64
	row   *OwnRow // that it is of, where that matters
	place int     // from 1; 0: it is in none
}

// set puts a mark at a number; 0: it leaves.
func (e *earliest) set(m *mark, at int64) {
	was := m.place
	switch m.at = at; {
	case was > 0 && at == 0:
		e.Remove(was - 1)
	case was > 0:
		e.Fix(was - 1)
	case at != 0:
		e.Push(m)
	}
}

// first is the least number; 0: there is none.
func (e *earliest) first() int64 {
	if e.Len() == 0 {
		return 0
	}
	return e.First().at
}

// Before and Placed are for earliest.
func (m *mark) Before(other *mark) bool { return m.at < other.at }
func (m *mark) Placed(at int)           { m.place = at + 1 }
