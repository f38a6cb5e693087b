package dispatch

import (
	"slices"
	"sync"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
)

// Dispatcher hands notifications to workers as they are written.
type Dispatcher struct {
	Store     *store.Store
	listeners listeners
	Hints     *hinter
}

// listeners are told of notify cells as they are written; observers use that for direct dispatch.
type listeners struct {
	mu   sync.RWMutex
	next int
	fns  []listener
}

type listener struct {
	id int
	f  func(model.Notification) (taken bool)
}

// HandleNotify is OnNotify for one who acts on notifications: f returns whether it has taken this
// one up. What nobody in this process takes up is hinted at to other processes
// (AwaitNotifications).
func (d *Dispatcher) HandleNotify(f func(model.Notification) (taken bool)) (remove func()) {
	l := &d.listeners
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	id := l.next
	l.fns = append(l.fns, listener{id, f})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fns = slices.DeleteFunc(slices.Clone(l.fns), func(x listener) bool { return x.id == id })
	}
}

func (d *Dispatcher) Notified(n model.Notification) {
	d.Store.Count.Notifications.Add(1)
	d.listeners.mu.RLock()
	fns := d.listeners.fns
	d.listeners.mu.RUnlock()
	taken := false
	for _, l := range fns {
		taken = l.f(n) || taken
	}
	if !taken {
		d.Hints.leave(d.Store.Background, n)
	}
}
