package observers

import (
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// lag is how far behind the work is. Each scanner keeps what it met in its last complete pass
// through the tables and in the current one, so that a long pass hides nothing. A pass may skip
// what another scanner works on; then that one has met it. An adopter keeps what it has found in
// the journal and no one has dealt with yet.
type lag struct {
	mu     sync.Mutex
	passes []*pass
}

// pass is what one scanner, or an adopter, has met. lag.mu guards it.
type pass struct {
	of        *lag
	last, now met
}

// met holds the extremes of a pass.
type met struct {
	notification time.Duration // the age of the oldest one that it takes and is not parked, when it was met
	any          time.Duration // the same of those that other workers take, too, as far as it meets them
	lock         time.Duration // how long the lock that is longest past its time to live has been
	parked       int           // cells that have only parked observers left
}

func (m met) max(o met) met {
	return met{max(m.notification, o.notification), max(m.any, o.any), max(m.lock, o.lock), max(m.parked, o.parked)}
}

// newPass adds a scanner.
func (l *lag) newPass() *pass {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &pass{of: l}
	l.passes = append(l.passes, p)
	return p
}

// seen returns the extremes over all scanners.
func (l *lag) seen() (m met) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.passes {
		m = m.max(p.last).max(p.now)
	}
	return m
}

// replace says all that there is now.
func (p *pass) replace(m met) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.last, p.now = m, met{}
}

// leave removes a scanner or an adopter that has ended.
func (p *pass) leave() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.passes = slices.DeleteFunc(p.of.passes, func(x *pass) bool { return x == p })
}

// add counts a page.
func (p *pass) add(m met) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	parked := p.now.parked + m.parked
	p.now = p.now.max(m)
	p.now.parked = parked
}

// end ends a pass. A failed one has not seen everything, so it can only make the extremes worse.
func (p *pass) end(complete bool) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if !complete {
		p.now = p.now.max(p.last)
	}
	p.last, p.now = p.now, met{}
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
		p.met.lock = max(p.met.lock, l.Overdue(p.now))
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
	m := w.lag.seen()
	if w.engine.Meta.Journaled() {
		own := w.engine.Journal.Own.Unsettled()
		oldest, taken := w.engine.Journal.Own.OldestNotified(w.takes)
		m = m.max(w.ageOf(settle.Backlog{Notified: oldest, Taken: taken}))
		m = m.max(w.ageOf(settle.Backlog{Notified: own.Notified, Taken: own.Taken, Expired: own.Expired}))
	}
	m.any = max(m.any, m.notification) // scanners meet only what they take
	return m
}
