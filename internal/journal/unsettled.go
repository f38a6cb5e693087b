package journal

import "time"

// Unsettled sums up what a client's own streams hold that is not settled.
type Unsettled struct {
	Rows   int       // of the journal
	Oldest time.Time // when the oldest of them was acknowledged; zero: there is none
	Behind uint64    // rows from the low positions on, settled ones among them
}

// Unsettled is for gauges: it says how things stand now.
func (o *Owner) Unsettled() (u Unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		u.Rows += len(s.rows)
		if len(s.rows) == 0 {
			continue
		}
		first := s.rows[0]
		u.Behind += s.next - first.Seq
		if u.Oldest.IsZero() || first.Sent.Before(u.Oldest) {
			u.Oldest = first.Sent
		}
	}
	return u
}
