package observers

import (
	"cmp"
	"slices"
	"time"
)

// gathering is the cells of a batch observer that are due. queue.mu guards it.
type gathering struct {
	cells   fifo[*entry] // entry.due says since when each of them waits
	offered bool         // queue.ready leads to it
	timer   *time.Timer  // fires when the first cell has waited long enough; nil: none has had to
}

// makeReady queues an entry that is due: by itself, or among those that a batch takes together.
func (q *queue) makeReady(e *entry, now time.Time) {
	e.state, e.readied = stateReady, now
	i, _ := e.next(now, q.retries.slots() > 0)
	if i >= 0 && e.joins(i) {
		q.gather(e, i, now)
		return
	}
	q.line(e, i, now)
}

// line has an entry, whose task i is next, wait for a goroutine. -1: there is none after all.
func (q *queue) line(e *entry, i int, now time.Time) {
	var headStart time.Duration
	if i >= 0 {
		headStart = e.column.lanes[i].headStart
	}
	q.ready.push(item{entry: e}, headStart, now)
	q.work.Signal()
	if q.surplus(nil) {
		signal(q.spread.surplus)
	}
}

// joins reports whether task i of an entry runs in batches.
func (e *entry) joins(i int) bool { return e.column.lanes[i].maxCells > 1 && !e.tasks[i].alone }

// gather has an entry, whose task i is due, wait for its batch.
func (q *queue) gather(e *entry, i int, now time.Time) {
	l := e.column.lanes[i]
	e.due = now
	if len(l.awaits) > 0 { // it may have been held all the while
		e.due = e.tasks[i].due
	}
	l.gathered.cells.push(e)
	q.offerBatch(l, now)
	if q.surplus(l) {
		signal(q.spread.surplus)
	}
}

// offerBatch makes the gathered cells of an observer ready if there is a slot for them and they
// have waited long enough, or are enough.
func (q *queue) offerBatch(l *lane, now time.Time) {
	g := &l.gathered
	if g.offered || g.cells.len() == 0 || l.slots() <= 0 {
		return
	}
	if wait := g.cells.first().due.Add(l.maxWait).Sub(now); wait > 0 && g.cells.len() < l.maxCells {
		if g.timer == nil {
			g.timer = time.AfterFunc(wait, func() { q.ripenBatch(l) })
		} else {
			g.timer.Reset(wait)
		}
		return
	}
	g.offered = true
	q.ready.push(item{batch: l}, l.headStart, now)
	q.work.Signal()
}

// ripenBatch is called when the first gathered cell has waited long enough.
func (q *queue) ripenBatch(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.offerBatch(l, time.Now())
	}
}

// takeBatch begins a run of the gathered cells, in row order. Without a slot, or if meanwhile
// nothing is left to do for them or they have to wait, it returns none. A batch that need not wait
// for other observers takes along cells that would: they cost it little.
func (q *queue) takeBatch(l *lane, now time.Time) []turn {
	g := &l.gathered
	g.offered = false
	if l.slots() <= 0 { // who leaves one offers the batch again
		return nil
	}
	var batch []turn
	slot := new(slot)
	for n := g.cells.len(); n > 0 && len(batch) < l.maxCells; n-- {
		e := g.cells.pop()
		i := slices.Index(e.column.lanes, l)
		if !e.pending(&e.tasks[i]) || e.readyAt(i, now).After(now) {
			q.schedule(e, now)
			continue
		}
		q.lag.note(now.Sub(e.readied)-l.maxWait, now)
		batch = append(batch, q.begin(e, i, slot))
	}
	if len(batch) > 0 {
		batch = q.takeAlong(l, batch, slot)
	}
	slices.SortFunc(batch, func(a, b turn) int { return cmp.Compare(a.entry.row, b.entry.row) })
	q.offerBatch(l, now)
	return batch
}

// closeBatch forgets the gathered cells of an observer.
func (q *queue) closeBatch(l *lane) {
	if l.gathered.timer != nil {
		l.gathered.timer.Stop()
	}
	for l.gathered.cells.len() > 0 {
		q.forget(l.gathered.cells.pop())
	}
}
