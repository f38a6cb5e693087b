package simulated

import (
	"sync"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// notification is a version of a notify cell.
type notification struct {
	table, row, column string
	ts                 tso.Timestamp
}

// notifications remembers which were set, and which were set again by a copy of their request that
// came late: the journal may lead to these no more.
type notifications struct {
	mu       sync.Mutex
	set      map[notification]struct{}
	repeated map[notification]struct{}
}

// note takes notice of changes that were applied to a row.
func (n *notifications) note(table, row string, changes []store.Change, late bool) {
	for i := range changes {
		if c := &changes[i]; c.Kind == store.PutVersion && c.Family == layout.NotifyFamily {
			n.add(notification{table, row, c.Column, c.From}, late)
		}
	}
}

func (n *notifications) add(key notification, late bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set, n.repeated = map[notification]struct{}{}, map[notification]struct{}{}
	}
	if _, before := n.set[key]; before && late {
		n.repeated[key] = struct{}{}
	}
	n.set[key] = struct{}{}
}

// Repeated reports whether a late copy of a request has set a notification that had been set
// before.
func (c *Cluster) Repeated(table, row, column string, ts tso.Timestamp) bool {
	c.notifications.mu.Lock()
	defer c.notifications.mu.Unlock()
	_, repeated := c.notifications.repeated[notification{table, row, column, ts}]
	return repeated
}
