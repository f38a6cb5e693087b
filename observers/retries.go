package observers

// retries bounds how many runs are under way for cells that have failed before: half of
// Config.Concurrency. An observer that hangs for some rows holds a slot until its timeout, at each
// attempt anew; as few rows as a worker has slots would otherwise keep it from everything else. So
// healthy cells have half of the slots at least, but for the first attempts at the others. Failures
// that the store is to blame for do not count: after an outage all cells have all slots.
//
// It is guarded by queue.mu.
type retries struct {
	limit   int
	active  int
	blocked fifo[*entry] // cells that wait for a slot
}

func (r *retries) slots() int { return r.limit - r.active }

// unblockRetries lets as many cells that have failed try again as there are slots. Like unblock it
// is called whenever one of them may have left its slot to another: a cell that was let in may have
// found something else to do.
func (q *queue) unblockRetries() {
	q.admit(&q.retries.blocked, q.retries.slots())
}
