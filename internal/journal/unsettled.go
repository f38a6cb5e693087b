package journal

import "github.com/gopercolator/percolator/tso"

// Unsettled sums up what a client's own streams hold that is not settled.
type Unsettled struct {
	Rows   int           // of the journal
	Oldest tso.Timestamp // the least start timestamp of an entry that is remembered; 0: there is none
	Behind uint64        // rows from the low positions on, settled ones among them
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
				if u.Oldest == 0 || w.entry.StartTS < u.Oldest {
					u.Oldest = w.entry.StartTS
				}
			}
		}
	}
	return u
}
