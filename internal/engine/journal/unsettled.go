package journal

import "github.com/gopercolator/percolator/tso"

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
	Rows    int           // of the journal
	Oldest  tso.Timestamp // least start timestamp of a remembered entry; 0: none
	Behind  uint64        // rows from the low positions on, settled ones among them
	Backlog               // of the remembered entries
}

// Found notes what a look at an entry has found, in place of what the last one had.
func (o *Owner) Found(w *Append, b Backlog) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.found = b
}

// Unsettled is for gauges: it says how things stand now.
func (o *Owner) Unsettled() (u Unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		if len(s.rows) == 0 {
			continue
		}
		u.Rows += len(s.rows)
		u.Behind += s.next - s.rows[0].Seq
		for _, row := range s.rows {
			for _, w := range row.open {
				u.Oldest = Earliest(u.Oldest, w.entry.StartTS)
				u.Backlog = u.With(w.found)
			}
		}
	}
	return u
}
