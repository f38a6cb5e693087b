// Package dispatch tells workers of notifications as clients write them: directly within the
// process, by hints through the oracle beyond it. It is an optimization on top of the scan (section
// 2.4 of the paper), which finds whatever gets lost here. It stands on store; locks and commit call
// it.
package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso/coordination"
)

// Dispatcher hands notifications to workers. Its methods may be called concurrently.
type Dispatcher struct {
	Store     *store.Store
	listeners listeners
	Hints     *hinter
}

// listeners hear of notify cells as they are written.
type listeners struct {
	mu   sync.RWMutex
	next int
	fns  []listener
}

type listener struct {
	id int
	f  func(model.Notification) (taken bool)
}

// HandleNotify calls f for each notification that this client writes, until the caller calls
// remove. f must not block; it reports whether it takes the notification up. The client hints at
// notifications that no listener takes up to other processes (AwaitNotifications).
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

// Notified tells the listeners of a notify cell that was written.
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
		d.Left(n)
	}
}

// Pass hints to one worker, in whichever process it is, at a notification. false: the hint would be
// too long, or cannot be sent now. It may get lost as others may.
func (d *Dispatcher) Pass(worker string, n model.Notification) bool {
	data := encodePassed(n)
	if len(data) > hintBytes {
		return false
	}
	return d.Hints.leave(d.Store.Background, coordination.Hint{Topic: d.Hints.workerTopic(worker), Data: data})
}

// Left hints to other processes at a notification that this one does not take up.
func (d *Dispatcher) Left(n model.Notification) {
	d.Hints.leave(d.Store.Background, coordination.Hint{Topic: d.Hints.topic(n.Cell.Table, n.Cell.Column), Data: encodeHint(n)})
}

// ColumnsAtOnce is how many columns a Question may name: each has two topics, and
// coordination.Hints takes 1,024.
const ColumnsAtOnce = 512

// Question is what a worker asks other processes for.
type Question struct {
	Columns   []model.Cell  // Row does not matter; at most ColumnsAtOnce
	Worker    string        // that other workers pass notifications on to, of any columns; "": none
	Most      int           // hints and hand-overs, 1 to 256
	Wait      time.Duration // for the first, at most 30 s
	HandOvers bool          // it has time for what other workers hand over, too
}

// Heard is what other processes have told a worker.
type Heard struct {
	Notified   []model.Notification // left as hints, or passed on
	HandedOver []HandOver
}

// HandOver is cells of one column that a worker hands over to another one, to run for them
// together.
type HandOver struct {
	Notified []model.Notification // one or more, in row order
	Times    int                  // how often workers have handed the cells over; at least 1
	From     uint64               // the worker that hands them over
}
