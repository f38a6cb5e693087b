package observers

import (
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/tso"
)

// backlog is how far behind the work is. Each scanner keeps what it met in its last complete round
// and in the current one, so that a long round hides nothing. A round may skip what another scanner
// works on; then that one has met it. An adopter keeps what it has found in the journal and no one
// has dealt with yet.
type backlog struct {
	mu     sync.Mutex
	rounds []*round
}

// round is what one scanner has met. backlog.mu guards it.
type round struct {
	of        *backlog
	last, now met
}

// met holds the extremes of a round.
type met struct {
	notification time.Duration // the age of the oldest one that it takes and is not parked, when it was met
	any          time.Duration // the same of those that other workers take, too, as far as it meets them
	lock         time.Duration // how long the lock that is longest past its time to live has been
	parked       int           // cells that have only parked observers left
}

func (m met) max(o met) met {
	return met{max(m.notification, o.notification), max(m.any, o.any), max(m.lock, o.lock), max(m.parked, o.parked)}
}

// newRound adds a scanner.
func (b *backlog) newRound() *round {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &round{of: b}
	b.rounds = append(b.rounds, r)
	return r
}

// seen returns the extremes over all scanners.
func (b *backlog) seen() (m met) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.rounds {
		m = m.max(r.last).max(r.now)
	}
	return m
}

// replace says all that there is now.
func (r *round) replace(m met) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.last, r.now = m, met{}
}

// leave removes a scanner or an adopter that has ended.
func (r *round) leave() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.rounds = slices.DeleteFunc(r.of.rounds, func(x *round) bool { return x == r })
}

// add counts a page.
func (r *round) add(m met) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	parked := r.now.parked + m.parked
	r.now = r.now.max(m)
	r.now.parked = parked
}

// end ends a round. A failed round has not seen everything, so it can only make the extremes worse.
func (r *round) end(complete bool) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if !complete {
		r.now = r.now.max(r.last)
	}
	r.last, r.now = r.now, met{}
}

// page collects what a scanner meets in one page.
type page struct {
	met
	now   tso.Timestamp // as far as the client can tell
	knows bool
}

func (w *Worker) newPage() (p page) {
	p.now, p.knows = w.engine.Clock.EstimatedTime()
	return p
}

// notification counts a notification that was offered to the queue.
func (p *page) notification(ts tso.Timestamp, v verdict) {
	switch v {
	case parked:
		p.parked++
	case finished, foreign:
	default:
		if p.knows {
			p.met.notification = max(p.met.notification, p.now.Sub(ts))
		}
	}
}

// lock counts a lock in the table.
func (p *page) lock(l model.Lock) {
	if p.knows {
		p.met.lock = max(p.met.lock, p.now.Sub(l.Placed)-l.TTL)
	}
}

// ageOf is how long what an adopter has found has been waiting, as far as the client can tell.
func (w *Worker) ageOf(left settle.Backlog) (m met) {
	now, knows := w.engine.Clock.EstimatedTime()
	if knows && left.Notified != 0 {
		m.any = now.Sub(left.Notified)
	}
	if knows && left.Taken != 0 {
		m.notification = now.Sub(left.Taken)
	}
	if knows && left.Expired != 0 {
		m.lock = max(0, now.Sub(left.Expired))
	}
	return m
}

// behind is how far behind the work is: what scanners and adopter have met, what this process's own
// client has notified and that are unprocessed, and what looks at its entries, those that it has
// taken over from the dead among them, have found.
func (w *Worker) behind() met {
	m := w.backlog.seen()
	if w.engine.Meta.Journaled() {
		own := w.engine.Journal.Own.Unsettled()
		oldest, taken := w.engine.Journal.Own.OldestNotified(w.takes)
		m = m.max(w.ageOf(settle.Backlog{Notified: oldest, Taken: taken}))
		m = m.max(w.ageOf(settle.Backlog{Notified: own.Notified, Taken: own.Taken, Expired: own.Expired}))
	}
	m.any = max(m.any, m.notification) // scanners meet only what they take
	return m
}
