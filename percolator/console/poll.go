package console

import (
	"context"
	"sync"
	"time"
)

const (
	// idleAfter is how long the poll keeps its pace when no page is open any more.
	idleAfter = 30 * time.Second
	// idleInterval is the least time between two polls while no page is open, and idleWalks that
	// between two walks over the journal or the tables.
	idleInterval = 10 * time.Second
	idleWalks    = time.Minute
	// pollTimeout is how long a poll waits for its sources before it shows what it has.
	pollTimeout = time.Second
)

// snapshot is what one poll found. It is immutable, except for its rendered pages.
type snapshot struct {
	Seq     int64
	Turn    int64 // of the poll that it is from
	At      time.Time
	State   state
	Samples []sample // of the last while, oldest first

	rendered rendered
}

// poller keeps the newest snapshot and the samples of the last while, until it is closed.
type poller struct {
	interval time.Duration
	src      source
	lifetime context.Context
	end      context.CancelFunc
	all      sync.WaitGroup

	mu       sync.Mutex
	probes   []*probe
	interest map[string]time.Time // by page: when a viewer looked last
	watchers map[string]int       // by page: who is kept up to date
	turn     int64                // counts the polls that have started
	state    state
	rates    *rates
	history  history
	latest   *snapshot
	changed  chan struct{} // closed with every new snapshot
	wake     chan struct{} // holds one when the pause before the next poll may have changed
	hurried  bool          // the next poll should not wait
}

func newPoller(src source, interval time.Duration) *poller {
	ctx, end := context.WithCancel(context.Background())
	p := &poller{
		interval: interval, src: src, lifetime: ctx, end: end,
		probes: newProbes(src, interval), interest: map[string]time.Time{}, watchers: map[string]int{},
		rates: newRates(), history: history{most: int(History / interval)}, changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	p.all.Go(p.run)
	return p
}

// close ends the poll and waits for what it has asked.
func (p *poller) close() {
	p.end()
	p.all.Wait()
}

// watch keeps a page up to date until release is called.
func (p *poller) watch(page string) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[page]++
	p.look(page)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watchers[page]--
		p.interest[page] = time.Now()
	})
}

// look notes that a viewer looks at a page, which may shorten the pause before the next poll. The
// caller holds mu.
func (p *poller) look(page string) {
	p.interest[page] = time.Now()
	p.stir()
}

// stir has the poll think again about its pause.
func (p *poller) stir() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poller) run() {
	for hurried := false; p.lifetime.Err() == nil; {
		p.step(hurried)
		hurried = p.rest(time.Now())
	}
}

// rest is the pause before the next poll; hurried: somebody waits for it, so it was cut short.
func (p *poller) rest(began time.Time) (hurried bool) {
	for {
		p.mu.Lock()
		left := time.Until(began.Add(p.pace()))
		hurried, p.hurried = p.hurried, false
		p.mu.Unlock()
		if hurried || left <= 0 {
			return hurried
		}
		select {
		case <-p.lifetime.Done():
			return false
		case <-p.wake:
		case <-time.After(left):
			return false
		}
	}
}

// pace is the time between two polls now. The caller holds mu.
func (p *poller) pace() time.Duration {
	if p.watched("") {
		return p.interval
	}
	return max(p.interval, idleInterval)
}

// step polls once.
func (p *poller) step(hurried bool) {
	p.mu.Lock()
	p.turn++
	turn, asked := p.turn, p.askDue()
	p.mu.Unlock()
	select {
	case <-asked:
	case <-time.After(pollTimeout): // the slow ones answer to a later poll
	case <-p.lifetime.Done():
	}
	p.publish(turn, hurried)
}

// watched tells whether a viewer looks at a page, "" for any. The caller holds mu.
func (p *poller) watched(page string) bool {
	for name, at := range p.interest {
		if (page == "" || page == name) && (p.watchers[name] > 0 || time.Since(at) < idleAfter) {
			return true
		}
	}
	return false
}

// askDue asks the sources that are due, and returns a channel that closes when all of them have
// answered. The caller holds mu.
func (p *poller) askDue() <-chan struct{} {
	var asked sync.WaitGroup
	now, idle := time.Now(), !p.watched("")
	for _, probe := range p.probes {
		if idle && probe.walks && now.Sub(probe.began) < idleWalks {
			continue
		}
		if probe.busy || now.Before(probe.due) || probe.page != "" && !p.watched(probe.page) {
			continue
		}
		probe.busy, probe.began = true, now
		asked.Add(1)
		p.all.Go(func() {
			defer asked.Done()
			p.ask(probe)
		})
	}
	done := make(chan struct{})
	p.all.Go(func() {
		asked.Wait()
		close(done)
	})
	return done
}

func (p *poller) ask(probe *probe) {
	ctx, cancel := context.WithTimeout(p.lifetime, probe.limit())
	defer cancel()
	began := time.Now()
	store := probe.ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	store(&p.state)
	probe.busy, probe.due = false, probe.next(began, time.Now())
	if probe.outdated {
		probe.outdated, probe.due = false, time.Time{}
	}
}
