package journal

import "github.com/gopercolator/percolator/tso"

// Unsettled sums up what a client's own streams hold that is not settled.
type Unsettled struct {
	Rows   int           // of the journal
	Oldest tso.Timestamp // least start timestamp of a remembered entry; 0: none
	Behind uint64        // rows from the low positions on, settled ones among them

	// What looks at the entries that are remembered have found and is unprocessed; 0:
	// nothing.
	Notified tso.Timestamp // the earliest notification
	Taken    tso.Timestamp // the earliest one that a worker of this client takes
	Expired  tso.Timestamp // earliest end of an unresolved lock's time to live
}

// Found notes what a look at an entry has found, in place of what the last one had; 0: nothing.
func (o *Owner) Found(w *Append, notified, taken, expired tso.Timestamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.notified, w.taken, w.expired = notified, taken, expired
}

// earliest is the lesser of two timestamps of which 0 stands for none.
func earliest(a, b tso.Timestamp) tso.Timestamp {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
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
				u.Oldest = earliest(u.Oldest, w.entry.StartTS)
				u.Notified = earliest(u.Notified, w.notified)
				u.Taken = earliest(u.Taken, w.taken)
				u.Expired = earliest(u.Expired, w.expired)
			}
		}
	}
	return u
}
