package journal

import (
	"maps"
	"slices"
	"time"
)

// haste is why rows are to be looked at earlier than they were scheduled for.
type haste struct {
	hurry  bool // Hurry was called
	shrunk bool // most of what rows rest for was settled
}

// hasteStep is how many rows are visited in one critical section.
const hasteStep = 256

// Hurry makes every row due that holds an unprocessed notification, as if it had never been looked
// at: a worker had no room for it, and has now. The next call of Due does so.
func (o *Owner) Hurry() {
	o.mu.Lock()
	o.hasty.hurry = true
	o.hurries++
	o.mu.Unlock()
	select {
	case o.Hurried <- struct{}{}:
	default:
	}
}

// unname notes that n names need no look any more. Once those are most of what the rows rest for,
// they rest for less, from the next call of Due on. The caller holds o.mu.
func (o *Owner) unname(n int) {
	if o.named -= n; o.named > o.rested/2 {
		return
	}
	o.rested = o.named
	o.hasty.shrunk = true
}

// hasten visits all rows once if some are to be looked at earlier: a few at a time, as commits wait
// for the lock.
func (o *Owner) hasten() {
	o.mu.Lock()
	why, hurries := o.hasty, o.hurries
	o.hasty = haste{}
	var ids []StreamID
	if why != (haste{}) {
		ids = slices.Collect(maps.Keys(o.streams))
		for _, s := range o.streams {
			s.visited = s.first
		}
	}
	o.mu.Unlock()
	for _, id := range ids {
		for o.hastenSome(id, why, hurries) {
		}
	}
}

// hastenSome visits some rows of a stream, and reports whether there are more.
func (o *Owner) hastenSome(id StreamID, why haste, hurries int) (more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.streams[id]
	if s == nil { // it was settled meanwhile
		return false
	}
	now := time.Now()
	for range hasteStep {
		row := s.visited
		if row == nil {
			return false
		}
		s.visited = row.next
		o.hastenRow(row, why, hurries, now)
	}
	return true
}

// hastenRow has a row looked at earlier if there is a reason. The caller holds o.mu.
func (o *Owner) hastenRow(row *OwnRow, why haste, hurries int, now time.Time) {
	if row.place < 0 {
		return
	}
	due := row.due
	if latest := now.Add(max(lookAfter(row.looks), o.leastRest())); why.shrunk && row.looks > 0 && due.After(latest) {
		due = latest
	}
	if why.hurry && row.hurries < hurries && row.notified() {
		row.looks, due = 0, now
	}
	if !due.Equal(row.due) {
		row.due = due
		o.due.Fix(row.place)
	}
}

// notified reports whether a row may hold an unprocessed notification.
func (r *OwnRow) notified() bool {
	return r.state == rowUnread || slices.ContainsFunc(r.open, func(w *Append) bool { return w.found.Notified != 0 || len(w.cells) > 0 })
}
