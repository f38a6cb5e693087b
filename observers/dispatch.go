package observers

import (
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/tso"
)

// dispatch queues a notification that this process's own client has just written, so that a chain
// of observers in one worker does not wait for a look by the journal, or a scan. It never blocks.
// Dropping what does not fit is safe: the notification is in the table, and the client hints at it
// to other processes.
func (w *Worker) dispatch(n model.Notification) (taken bool) {
	if w.pass(n) {
		return true
	}
	switch v, _ := w.offer(n, arrival{how: dispatched}); v {
	case accepted, joined:
		w.counters.dispatched.Add(1)
	case full, crowded:
		w.counters.dropped.Add(1)
		return false
	case refused, foreign:
		return false
	}
	return true
}

// column is that of a cell; nil: this worker does not take it.
func (w *Worker) column(c model.Cell) *column { return w.coverage.taken[Column{c.Table, c.Column}] }

func (w *Worker) takes(c model.Cell) bool { return w.column(c) != nil }

// offer queues a notification unless its column is foreign to this worker, or was dropped.
func (w *Worker) offer(n model.Notification, a arrival) (v verdict, upTo tso.Timestamp) {
	col := w.column(n.Cell)
	if col == nil || w.dropped(col) {
		return foreign, 0
	}
	return w.queue.add(col, n.Cell.Row, n.Timestamp, a)
}
