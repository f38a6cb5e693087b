package observers

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/tso"
)

// A notification that a worker comes across may be another worker's, which has it in its queue: in
// its collapse window, in a pause after a failure, or because there is much to do. Who runs for it
// as well wastes requests, and both conflict. So a worker leaves alone what it finds until it has
// stood for longer than it should wait anywhere: the Collapse, MaxWait and After of its column,
// Config.Grace, and as long as ready cells wait here. Exceptions are what was lost for certain:
// entries of sessions that have ended; and this client's own entries, which it looks at late and of
// which it knows what it has handed over.
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

type sighting struct {
	ts          tso.Timestamp
	first, last time.Time
	moved       bool // a later notification was seen since: it may have been run for in between
}

// sightingsLimit bounds their memory.
const sightingsLimit = 8192

func newSightings() *sightings {
	cells, err := simplelru.NewLRU[cellKey, sighting](sightingsLimit, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &sightings{cells: cells}
}

// standing is for how long the cell has been seen to be notified; of one that is notified again and
// again a quarter of that.
func (s *sightings) standing(key cellKey, ts tso.Timestamp, grace time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	seen, ok := s.cells.Get(key)
	if !ok || seen.ts != ts && now.Sub(seen.last) > grace {
		seen = sighting{ts: ts, first: now}
	}
	seen.moved = seen.moved || seen.ts != ts
	seen.last = now
	s.cells.Add(key, seen)
	if seen.moved {
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
	return col.wait() + w.cfg.Grace + w.queue.lagging()
}

// age is how long ago ts was, as far as the client can tell.
func (w *Worker) age(ts tso.Timestamp) time.Duration {
	if now, ok := w.engine.Clock.EstimatedTime(); ok {
		return now.Sub(ts)
	}
	return 0
}

// young reports whether another worker may be about to run for a notification that this one has
// come across; it was found when it was at least as old as age.
func (w *Worker) young(n model.Notification, age time.Duration) bool {
	col := w.coverage.taken[Column{n.Cell.Table, n.Cell.Column}]
	if col == nil || w.cfg.Grace < 0 {
		return false
	}
	grace := w.grace(col)
	return max(age, w.age(n.Timestamp)) < grace && w.sightings.standing(cellKey{col, n.Cell.Row}, n.Timestamp, grace) < grace
}

// lag is how long ready cells wait here for their job. It says how long they may wait in other
// workers, since these share their work. After a while without a job it says less and less.
type lag struct {
	longest time.Duration
	noted   time.Time
}

func (rn *lag) note(d time.Duration, now time.Time) {
	if d >= rn.now(now) {
		rn.longest, rn.noted = d, now
	}
}

func (rn *lag) now(now time.Time) time.Duration { return max(0, rn.longest-now.Sub(rn.noted)) }

// lagging is the lag now.
func (q *queue) lagging() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lag.now(time.Now())
}
