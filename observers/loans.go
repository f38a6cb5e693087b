package observers

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/tso"
)

// loans are the cells that were handed over lately. This client's looks find them until their runs
// have ended. They are this worker's again when the other one was given enough time. queue.mu
// guards them.
type loans struct {
	// cells are in the order in which they were handed over.
	cells *simplelru.LRU[cellKey, loan]
	// grace is how long the other worker has, beyond what the observers of a cell wait.
	grace time.Duration
	// until is the latest loan.until there has been.
	until time.Time
	// timer has this client look for what others did not run for. nil: it is not set, and nothing was
	// handed over since it fired.
	timer *time.Timer
}

// loan is a cell that another worker has, for notifications up to upTo and for a time.
type loan struct {
	upTo  tso.Timestamp
	until time.Time
}

// has reports whether another worker was handed a notification of the cell at or above ts, and may
// still have it.
func (l *loans) has(key cellKey, ts tso.Timestamp) bool {
	c, ok := l.cells.Get(key)
	return ok && ts <= c.upTo && time.Now().Before(c.until)
}

// add remembers a cell that was handed over, and forgets those that were long ago. The other worker
// may wait for more cells, or for other observers.
func (l *loans) add(key cellKey, upTo tso.Timestamp, now time.Time) {
	for {
		oldest, c, ok := l.cells.GetOldest()
		if !ok || now.Before(c.until) {
			break
		}
		l.cells.Remove(oldest)
	}
	until := now.Add(l.grace + key.column.wait())
	if until.After(l.until) {
		l.until = until
	}
	l.cells.Add(key, loan{upTo, until})
}

func (l *loans) remove(key cellKey) { l.cells.Remove(key) }

// awaitReturn sets the timer for cells that were handed over, unless it is set.
func (q *queue) awaitReturn() {
	if l := &q.handOver.lent; l.timer == nil {
		l.timer = time.AfterFunc(l.grace, q.reclaim)
	}
}

// reclaim has this client look for cells that were handed over and not run for.
func (q *queue) reclaim() {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.handOver.lent
	l.timer = nil
	if q.phase == queueClosed {
		return
	}
	signal(q.room.missed)
	// The worker handed over cells since it set the timer.
	if rest := time.Until(l.until); rest > 0 {
		l.timer = time.AfterFunc(rest, q.reclaim)
	}
}
