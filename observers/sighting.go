package observers

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A notification that a worker comes across may be another worker's, which has it in its queue: in
// its collapse window, in a pause after a failure, or because there is much to do. A second worker
// that runs for it wastes requests, and both conflict. So a worker leaves alone what it finds until
// it has stood for longer than it should wait anywhere: the Collapse, MaxWait and After of its
// column, Config.Grace, and as long as ready cells wait here. Exceptions are what was lost for
// certain: entries of sessions that have ended; and this client's own entries, which it looks at
// late and of which it knows what it has handed over.
//
// Rejected: row locks for what waits. They cost the oracle a request for every few cells, and a
// scanner stops at each row that is locked.

// sightings remember when notifications were seen first. The oracle's clock alone would do, but a
// clock that stands still must not keep what is lost from being found. The methods may be called
// concurrently.
type sightings struct {
	mu    sync.Mutex
	cells *simplelru.LRU[cellKey, sighting]
}

// sighting is what a worker has seen of a notified cell.
type sighting struct {
	state       sightingState
	ts          tso.Timestamp // of the notification that was seen first
	first, last time.Time     // when the cell was seen to be notified; at most a grace between two of these
}

type sightingState uint8

const (
	// sightingSame: the notification has stood since it was seen first.
	sightingSame sightingState = iota
	// sightingRenewed: other notifications were seen since, so the cell may have been run for in
	// between. It counts as standing for a quarter of the time.
	sightingRenewed
)

// sightingsLimit bounds their memory.
const sightingsLimit = 8192

func newSightings() *sightings { return &sightings{cells: newLRU[cellKey, sighting](sightingsLimit)} }

// standing records a notification, and returns for how long the cell has been seen to be notified.
func (s *sightings) standing(key cellKey, ts tso.Timestamp, grace time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	seen, ok := s.cells.Get(key)
	switch {
	case !ok || seen.ts != ts && now.Sub(seen.last) > grace:
		seen = sighting{state: sightingSame, ts: ts, first: now}
	case seen.ts != ts:
		seen.state = sightingRenewed
	}
	seen.last = now
	s.cells.Add(key, seen)
	if seen.state == sightingRenewed {
		return now.Sub(seen.first) / 4
	}
	return now.Sub(seen.first)
}

// wait is for how long a cell of the column may have to wait before it is ready for all of its
// observers.
func (c *column) wait() (d time.Duration) {
	for _, rn := range c.runners {
		w := rn.collapse + rn.maxWait
		if len(rn.after) > 0 {
			w += rn.afterLimit
		}
		d = max(d, w)
	}
	return d
}

// grace is how long a notification of the column may wait for its run in some worker.
func (w *Worker) grace(col *column) time.Duration {
	return col.wait() + w.cfg.Grace + w.queue.currentDelay()
}

// age is how long ago ts was, as far as the client can tell.
func (w *Worker) age(ts tso.Timestamp) time.Duration {
	if now, ok := w.engine.Clock.EstimatedTime(); ok {
		return now.Sub(ts)
	}
	return 0
}

// metBy is the source of a notification that this worker has come across: fromContested while
// another worker may be about to run for it, then fromSearch. It was found when it was at least as
// old as age.
func (w *Worker) metBy(n model.Notification, age time.Duration) source {
	col := w.column(n.Cell)
	if col == nil || w.cfg.Grace < 0 {
		return fromSearch
	}
	grace := w.grace(col)
	if max(age, w.age(n.Timestamp)) < grace && w.sightings.standing(cellKey{col, n.Cell.Row}, n.Timestamp, grace) < grace {
		return fromContested
	}
	return fromSearch
}

// queueDelay is how long ready cells wait here for their run. It says how long they may wait in
// other workers, since these share their work. After a while without a run it says less and less.
type queueDelay struct {
	longest time.Duration // at noted; it decays by a second each second
	noted   time.Time
}

func (d *queueDelay) note(waited time.Duration, now time.Time) {
	if waited >= d.at(now) {
		d.longest, d.noted = waited, now
	}
}

func (d *queueDelay) at(now time.Time) time.Duration { return max(0, d.longest-now.Sub(d.noted)) }

// currentDelay is the delay now.
func (q *queue) currentDelay() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delay.at(time.Now())
}
