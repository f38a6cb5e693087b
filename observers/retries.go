package observers

import "time"

// retries limits the runs under way for cells that have failed before to half of
// Config.Concurrency. An observer that hangs for some rows holds a slot until its timeout, on every
// attempt; as few rows as there are slots would keep the worker from everything else. So healthy
// cells have at least half of the slots, apart from first attempts at the failing ones. Failures
// that the store is to blame for do not count: after an outage all cells have all slots.
//
// queue.mu guards it.
type retries struct {
	limit   int
	active  int
	blocked fifo[*entry] // cells that wait for a slot
}

func (r *retries) slots() int { return r.limit - r.active }

// unblockRetries readies failed cells for which there are slots. Like unblock, it is called
// whenever one of them may have left its slot: a cell that was let in may have found something else
// to do.
func (q *queue) unblockRetries() {
	q.admit(&q.retries.blocked, q.retries.slots(), time.Now())
}
