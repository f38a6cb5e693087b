package store

import (
	"container/list"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/retry"
)

// Bigtable asks for less: it refuses requests with RESOURCE_EXHAUSTED, and may say how long to wait
// (RetryInfo, also with other codes). Requests to that table then wait as they were told, or
// exponentially; half as many as before are in flight; and each answer that does not ask again
// allows more, as TCP's congestion control does: one more for each until half of what was too much,
// then one more for each round; and twice as many after each second without a word. Background work
// goes last, with half of what is allowed, but has one turn of eight. Where it has a profile of its
// own, what Bigtable says to it is for it alone.
//
// The table stays under pressure until nothing waits and nobody was asked for calmAfter.
//
// Whatever the state, no more than outstandingMost mutations to a table are in flight: Bigtable
// takes 300,000 for all its clients. Those in the background are at most half of them, and wait for
// that half apart.
const (
	minPause        = 10 * time.Millisecond
	maxPause        = 2 * time.Second
	maxToldPause    = 30 * time.Second // whoever is told to wait longer asks in between
	calmAfter       = 10 * time.Second
	relaxEvery      = time.Second
	maxLimit        = 1 << 20
	outstandingMost = 200_000
	foregroundMost  = 7 // requests in a row that go before one in the background
	giveWayMost     = 10 * time.Second
	giveWayStep     = 20 * time.Millisecond
)

// Backpressure is what Bigtable says of each table. The zero value is ready; it is safe for
// concurrent use.
type Backpressure struct {
	Logger *slog.Logger    // nil: nothing is logged
	Over   context.Context // nothing is logged after it has ended; nil: it never does
	Asked  atomic.Int64    // answers that asked to slow down

	answered atomic.Int64 // when a request last was, in Unix nanoseconds
	divided  bool         // background work has an app profile of its own, which Bigtable refuses first
	tables   sync.Map     // pressed → *tablePressure

	mu    sync.Mutex
	under map[pressed]bool // what is under pressure; guarded by mu
}

// pressed is a table, and whether it is that of background work with a profile of its own.
type pressed struct {
	table      string
	background bool
}

func (b *Backpressure) of(what pressed) *tablePressure {
	what.background = what.background && b.divided
	if p, ok := b.tables.Load(what); ok {
		return p.(*tablePressure)
	}
	p, _ := b.tables.LoadOrStore(what, &tablePressure{all: b, what: what, room: semaphore.NewWeighted(outstandingMost), behind: semaphore.NewWeighted(outstandingMost / 2)})
	return p.(*tablePressure)
}

// Tables names the tables under pressure.
func (b *Backpressure) Tables() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]string, 0, len(b.under))
	for what := range b.under {
		names = append(names, what.table)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Of reports whether Bigtable asks to slow down on a table.
func (b *Backpressure) Of(table string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.under[pressed{table, false}]
}

// GiveWay waits while requests to any table wait because of its pressure, for at most giveWayMost.
// Work that nobody waits for calls it before it starts something: what it has started may hold
// locks.
func (b *Backpressure) GiveWay(ctx context.Context) error {
	for started := time.Now(); b.acute() && time.Since(started) < giveWayMost; {
		if err := retry.Sleep(ctx, giveWayStep/2+rand.N(giveWayStep)); err != nil {
			return err
		}
	}
	return nil
}

// acute reports whether requests to a table wait, or would.
func (b *Backpressure) acute() bool {
	b.mu.Lock()
	under := slices.Collect(maps.Keys(b.under))
	b.mu.Unlock()
	for _, what := range under {
		if what.background {
			continue
		}
		p := b.of(what)
		p.mu.Lock()
		waits := p.waiting[foreground].Len() > 0 || time.Now().Before(p.until)
		p.mu.Unlock()
		if waits {
			return true
		}
	}
	return false
}

// Refuses reports whether requests wait because of the pressure of a table, and none to any table
// was answered for so long, but by a wish for less.
func (b *Backpressure) Refuses(d time.Duration) bool {
	return b != nil && time.Since(time.Unix(0, b.answered.Load())) >= d && b.acute()
}

// note keeps which tables are under pressure, and says so.
func (b *Backpressure) note(what pressed, slow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.under == nil {
		b.under = map[pressed]bool{}
	}
	if b.under[what] = true; !slow {
		delete(b.under, what)
	}
	switch { // not here: requests wait for this lock
	case b.Logger == nil, b.Over != nil && b.Over.Err() != nil:
	case slow:
		go b.Logger.Warn("Bigtable asks to slow down; requests wait, background work first", "table", what.table, "background", what.background)
	default:
		go b.Logger.Info("Bigtable no longer asks to slow down", "table", what.table, "background", what.background)
	}
}

// told notes how long the answer to an attempt that was sent then says to wait. Google's client
// hides that of conditional mutations, and repeats the rest by itself.
func (b *Backpressure) told(what pressed, sent time.Time, err error) {
	if wait, _ := retry.SlowDown(err); wait > 0 {
		if status.Code(err) != codes.ResourceExhausted { // as leave counts it
			b.Asked.Add(1)
		}
		p, now := b.of(what), time.Now()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lower(admission{started: sent}, now, wait)
	}
}

// tablePressure is calm, or under pressure: limit > 0.
type tablePressure struct {
	all    *Backpressure
	what   pressed
	room   *semaphore.Weighted // for mutations in flight
	behind *semaphore.Weighted // of it, for those in the background

	mu       sync.Mutex
	inFlight int // requests
	waiting  [2]list.List
	passed   int // requests that went before one that waits in the background

	limit   int       // of requests in flight; 0: none
	slow    int       // from here on the limit grows slowly
	credit  int       // answers since it grew
	grown   bool      // since it was lowered
	lowered time.Time // when that was
	asked   time.Time // when Bigtable last asked for less
	until   time.Time // nothing is sent before
	pause   time.Duration
	timer   *time.Timer // grants when until has come
}

// The two queues of a table.
const (
	foreground = iota
	background
)

// send counts a request; the caller holds p.mu.
func (p *tablePressure) send(a *admission, now time.Time) {
	p.inFlight++
	a.started = now
}

// grant lets the requests go whose turn it is; the caller holds p.mu.
func (p *tablePressure) grant() {
	now := time.Now()
	if wait := p.until.Sub(now); wait > 0 {
		if p.timer == nil && p.waiting[foreground].Len()+p.waiting[background].Len() > 0 {
			p.timer = time.AfterFunc(wait, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.timer = nil
				p.grant()
			})
		}
		return
	}
	for {
		class := foreground
		if p.waiting[background].Len() > 0 && (p.waiting[foreground].Len() == 0 || p.passed >= foregroundMost) {
			class = background
		}
		at := p.waiting[class].Front()
		if at == nil || !p.hasRoom(class) {
			return
		}
		if p.passed++; class == background || p.waiting[background].Len() == 0 {
			p.passed = 0
		}
		w := at.Value.(*waiter)
		p.waiting[class].Remove(at)
		p.send(&w.admission, now)
		close(w.granted)
	}
}

// hasRoom reports whether one more request may be in flight. What is in the background has half of
// that, but for its turn.
func (p *tablePressure) hasRoom(class int) bool {
	limit := p.limit
	if class == background && p.passed < foregroundMost {
		limit = (limit + 1) / 2
	}
	return limit == 0 || p.inFlight < limit
}

// leave ends a request with what came of it.
func (a admission) leave(err error) {
	told, less := retry.SlowDown(err)
	p, now := a.table, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case less:
		p.all.Asked.Add(1)
		p.lower(a, now, told)
	case !retry.Ambiguous(err):
		p.all.answered.Store(now.UnixNano())
		if p.limit > 0 {
			p.grow(a)
		}
	}
	p.inFlight--
	a.giveRoom()
	p.grant()
}

// lower halves what may be in flight, once for all requests that were sent before it was lowered
// last. The caller holds p.mu.
func (p *tablePressure) lower(a admission, now time.Time, told time.Duration) {
	p.asked = now
	if p.until = later(p.until, now.Add(min(told, maxToldPause))); a.started.Before(p.lowered) {
		return
	}
	if p.limit == 0 {
		p.all.note(p.what, true)
		time.AfterFunc(relaxEvery, p.relax)
	}
	if p.limit == 0 || p.grown {
		p.slow = max(1, p.inFlight/2)
	}
	p.limit, p.credit, p.grown, p.lowered = max(1, p.inFlight/2), 0, false, now
	p.pause = min(max(minPause, 2*p.pause), maxPause)
	p.until = later(p.until, now.Add(p.pause/2+rand.N(p.pause)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// grow allows more after an answer to what was sent since the limit was lowered. The caller holds
// p.mu.
func (p *tablePressure) grow(a admission) {
	if a.started.Before(p.lowered) {
		return
	}
	p.pause, p.grown = 0, true
	if p.credit++; p.limit < p.slow || p.credit >= p.limit {
		p.limit, p.credit = p.limit+1, 0
	}
}

// relax doubles the limit where Bigtable has not asked for a while, since what is in flight may be
// slow, or wait for what waits itself; and ends the pressure once nothing waits.
func (p *tablePressure) relax() {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet := time.Since(p.asked)
	if quiet >= calmAfter && !time.Now().Before(p.until) && p.waiting[foreground].Len()+p.waiting[background].Len() == 0 {
		p.limit = 0
		p.all.note(p.what, false)
		return
	}
	if quiet >= relaxEvery {
		p.limit = min(2*p.limit, maxLimit)
		p.grant()
	}
	time.AfterFunc(relaxEvery, p.relax)
}
