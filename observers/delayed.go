package observers

import (
	"container/heap"
	"time"
)

// delayed holds entries whose pause has not ended, with one timer for all. queue.mu guards it.
type delayed struct {
	heap  dueHeap
	timer *time.Timer
	armed time.Time // when the timer fires; zero: it does not
}

func (d *delayed) add(e *entry) {
	heap.Push(&d.heap, e)
	d.arm()
}

func (d *delayed) remove(e *entry) {
	heap.Remove(&d.heap, e.index)
	e.unhold()
}

// arm sets the timer to the first entry. It never sets it back, since firing early is harmless.
func (d *delayed) arm() {
	if len(d.heap) == 0 {
		return
	}
	if due := d.heap[0].due; d.armed.IsZero() || due.Before(d.armed) {
		d.armed = due
		d.timer.Reset(time.Until(due))
	}
}

// ripen readies the entries that are due, or need not wait for other observers any longer. The
// timer calls it.
func (q *queue) ripen() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delayed.armed = time.Time{}
	if q.closed {
		return
	}
	for now := time.Now(); len(q.delayed.heap) > 0 && !q.delayed.heap[0].due.After(now); {
		e := q.delayed.heap[0]
		q.delayed.remove(e)
		q.schedule(e, now)
	}
	q.delayed.arm()
}

// dueHeap orders entries by due time. It implements heap.Interface.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
