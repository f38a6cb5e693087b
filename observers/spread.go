package observers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/tso"
)

// spread is what a queue knows of sharing its work with other workers. Cells stay where they were
// dispatched as long as this worker runs them soon: that costs nothing, and chains keep their
// caches. What is ready beyond that is handed to workers that have fewer ready cells than slots,
// and no full batch waiting, the oldest first, because these wait longest. The gap between the two
// bounds, and the limit of hand-overs of a cell, keep cells from going back and forth.
//
// queue.mu guards it.
type spread struct {
	keep    int           // ready cells that stay here, and batches; more are a surplus
	few     int           // ready cells below which there is room for others' surplus
	grace   time.Duration // for another worker to run for a cell
	surplus chan struct{} // receives when there is one
	hunger  chan struct{} // receives when there are few
	failing int           // attempts that failed since the last that did not
	first   int           // whose surplus was offered first, the last time

	// given are the cells that were handed over lately. This client's looks find them until their
	// runs have ended. They are this worker's again when the other one was given enough time.
	given *simplelru.LRU[cellKey, given]
	until time.Time   // the last of them are the other worker's
	timer *time.Timer // looks for what others did not run for; nil: it is not set
}

type given struct {
	upTo  tso.Timestamp
	until time.Time
}

const (
	surplusFactor = 4    // ready cells for each slot that are no surplus
	surplusRounds = 1    // full batches for each slot that are none
	maxHandOvers  = 2    // of a cell
	surplusVisits = 1024 // entries that are looked at for cells to hand over
)

func newSpread(cfg Config) spread {
	cells, err := simplelru.NewLRU[cellKey, given](cfg.QueueLength, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	s := spread{keep: surplusFactor * cfg.Concurrency, few: cfg.Concurrency, grace: 2 * max(0, cfg.Grace), given: cells}
	s.surplus, s.hunger = make(chan struct{}, 1), make(chan struct{}, 1)
	return s
}

// has reports whether another worker was handed a notification of the cell at or above ts, and may
// still have it.
func (s *spread) has(key cellKey, ts tso.Timestamp) bool {
	g, ok := s.given.Get(key)
	return ok && ts <= g.upTo && time.Now().Before(g.until)
}

// add remembers a cell that was handed over, and forgets those that were long ago. The other worker
// may wait for more cells, or for other observers.
func (s *spread) add(key cellKey, upTo tso.Timestamp, now time.Time) {
	for {
		oldest, g, ok := s.given.GetOldest()
		if !ok || now.Before(g.until) {
			break
		}
		s.given.Remove(oldest)
	}
	until := now.Add(s.grace + key.column.wait())
	if until.After(s.until) {
		s.until = until
	}
	s.given.Add(key, given{upTo, until})
}

// signal wakes the goroutine that waits on a channel with room for one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// awaitHunger waits until there are few ready cells, or a time has passed. A worker whose runs fail
// is not hungry: it would swallow the others' work. open is false when ctx has ended or the queue
// is closed.
func (q *queue) awaitHunger(ctx context.Context, most time.Duration) (hungry, open bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		q.mu.Lock()
		well := q.spread.failing < q.spread.few || q.active() == 0
		hungry, open = well && q.hungry(), q.open
		q.mu.Unlock()
		if hungry || !open {
			return hungry, open
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-timer.C:
			return false, true
		case <-q.spread.hunger:
		}
	}
}

// hungry reports whether there is little that waits for a slot, and room for more.
func (q *queue) hungry() bool {
	return q.ready.len() < q.spread.few && q.counts[dispatched] < q.limits[dispatched] && !slices.ContainsFunc(q.runners, func(rn *runner) bool {
		return rn.maxCells > 1 && rn.gathered.cells.len() >= rn.maxCells
	})
}

// surplus reports whether more cells are ready than stay here: by themselves, or gathered for
// batches of rn.
func (q *queue) surplus(rn *runner) bool {
	if rn == nil {
		return q.ready.len() > q.spread.keep
	}
	return q.surplusOf(rn) > 0
}

// surplusOf is how many of the gathered cells of an observer are more than its slots take in one
// batch each. Fewer than a batch are none: run by themselves, they would cost more requests than in
// the next batch here. Where batches conflict, there are none either.
func (q *queue) surplusOf(rn *runner) int {
	slots := int(rn.congestion.most)
	if rn.congestion.limit() < slots {
		return 0
	}
	if rn.concurrent > 0 {
		slots = min(slots, rn.concurrent)
	}
	if more := rn.gathered.cells.len() - surplusRounds*slots*rn.maxCells; more >= rn.shared() {
		return more
	}
	return 0
}

// shared is how many cells of a batch are handed over together.
func (rn *runner) shared() int { return max(1, min(rn.maxCells, shareAtOnce)) }

// awaitSurplus waits until there are more ready cells than stay here.
func (q *queue) awaitSurplus(ctx context.Context) bool {
	for {
		q.mu.Lock()
		more, open := q.surplus(nil) || slices.ContainsFunc(q.runners, q.surplus), q.open
		q.mu.Unlock()
		if more || !open {
			return open
		}
		select {
		case <-ctx.Done():
			return false
		case <-q.spread.surplus:
		}
	}
}

// offered is a cell that is offered to other workers.
type offered struct {
	*entry
	ts    tso.Timestamp // its newest notification then
	item  item          // what led to it in queue.ready
	batch *runner       // for which it was gathered; nil: for none
}

// takeSurplus takes of the surplus of each kind, single cells and the batches of each observer, the
// oldest: at most most cells, or one batch if that has more. What it returns together is to run
// together. Kinds take turns in coming first, as all may be more than one request holds. The caller
// ends each offer with handedOver or keep.
func (q *queue) takeSurplus(most int) (offers [][]offered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kinds := 1 + len(q.runners)
	q.spread.first = (q.spread.first + 1) % kinds
	for i := range kinds {
		if kind := (q.spread.first + i) % kinds; kind == len(q.runners) {
			offers = append(offers, q.takeSingles(most)...)
		} else {
			offers = append(offers, q.takeBatches(q.runners[kind], most)...)
		}
	}
	return offers
}

func (q *queue) takeSingles(most int) (offers [][]offered) {
	visits := surplusVisits
	var stay []item
	for n := q.ready.len() - q.spread.keep; n > 0 && visits > 0 && len(offers) < most; n-- {
		visits--
		it := q.ready.pop()
		if it.entry == nil || !it.entry.shareable() {
			stay = append(stay, it)
			continue
		}
		it.entry.state = stateOffered
		offers = append(offers, []offered{{entry: it.entry, ts: it.entry.newest, item: it}})
	}
	q.ready.unpop(stay)
	return offers
}

// takeBatches takes whole batches of an observer.
func (q *queue) takeBatches(rn *runner, most int) (offers [][]offered) {
	size := rn.shared()
	most = max(1, most/size) * size
	visits, fit := surplusVisits, 0
	var popped []*entry
	for n := q.surplusOf(rn); n > 0 && visits > 0 && fit < most; n-- {
		visits--
		e := rn.gathered.cells.pop()
		popped = append(popped, e)
		if e.shareable() {
			fit++
		}
	}
	var stay []*entry
	var cells []offered
	for _, e := range popped {
		if len(cells) == fit-fit%size || !e.shareable() {
			stay = append(stay, e)
			continue
		}
		e.state = stateOffered
		cells = append(cells, offered{entry: e, ts: e.newest, batch: rn})
	}
	rn.gathered.cells.unpop(stay)
	for batch := range slices.Chunk(cells, size) {
		offers = append(offers, batch)
	}
	return offers
}

// shareable reports whether this worker knows nothing of the cell that another one would have to
// find out: no observer of it has run, failed or been parked.
func (e *entry) shareable() bool {
	if e.handOvers >= maxHandOvers || e.stored || e.column.owned != byNobody {
		return false
	}
	for _, t := range e.tasks {
		if t.ran > 0 || t.parked > 0 || t.failures > 0 || t.attempts > 0 || t.activity == taskPaused || t.alone {
			return false
		}
	}
	return true
}

// keep ends offers that were not taken. They are in the order of takeSurplus.
func (q *queue) keep(offers [][]offered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stay(slices.Concat(offers...))
}

// stay makes offered cells ready as they were.
func (q *queue) stay(cells []offered) {
	var items []item
	gathered := map[*runner][]*entry{}
	for _, c := range cells {
		c.state = stateReady
		switch {
		case q.closed:
			q.forget(c.entry)
		case c.batch != nil:
			gathered[c.batch] = append(gathered[c.batch], c.entry)
		default:
			items = append(items, c.item)
			q.work.Signal()
		}
	}
	q.ready.unpop(items)
	for rn, entries := range gathered {
		rn.gathered.cells.unpop(entries)
		q.offerBatch(rn, time.Now())
	}
}

// handedOver ends offers that other workers have taken, and returns how many cells these are: some
// may have come back, or been notified again.
func (q *queue) handedOver(offers [][]offered) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var back []offered
	for _, c := range slices.Concat(offers...) {
		switch {
		case !q.closed && c.newest > c.ts:
			q.schedule(c.entry, now)
		case !q.closed && c.state == stateReturned:
			back = append(back, c)
		default:
			q.forget(c.entry)
			q.spread.add(cellKey{c.column, c.row}, c.ts, now)
			n++
		}
	}
	q.stay(back)
	if n > 0 && !q.closed && q.spread.timer == nil {
		q.spread.timer = time.AfterFunc(q.spread.grace, q.miss)
	}
	return n
}

// miss has this client look for cells that were handed over and not run for.
func (q *queue) miss() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spread.timer = nil
	if q.closed {
		return
	}
	signal(q.missed)
	// The worker handed over cells since it set the timer.
	if rest := time.Until(q.spread.until); rest > 0 {
		q.spread.timer = time.AfterFunc(rest, q.miss)
	}
}

// receive queues cells that another worker has handed over, all at once, as they are to run
// together. They are due now, since they have waited there: waited is for how long, beyond what
// their observers are to wait. It returns how many were new.
func (q *queue) receive(col *column, cells []model.Notification, handOvers int, waited time.Duration) (n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range cells {
		if v, _ := q.insert(col, c.Cell.Row, c.Timestamp, arrival{how: dispatched, handOvers: handOvers, asked: true}); v == accepted || v == joined {
			n++
		}
	}
	q.lag.note(waited, time.Now())
	return n
}

// takeBack queues cells again that this worker has handed over, to itself.
func (q *queue) takeBack(col *column, cells []model.Notification, handOvers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range cells {
		row := c.Cell.Row
		if e := col.cells[row]; e != nil && (e.state == stateOffered || e.state == stateReturned) {
			e.state = stateReturned
			continue
		}
		q.spread.given.Remove(cellKey{col, row})
		q.insert(col, row, c.Timestamp, arrival{how: dispatched, handOvers: handOvers, asked: true})
	}
}

const (
	shareAtOnce    = 256                    // cells that are offered at most
	shareFewest    = 32                     // and at least
	shareAgain     = 10 * time.Millisecond  // after an offer of which some was taken
	shareRarely    = 250 * time.Millisecond // after offers that were not taken
	shareFailed    = 5 * time.Second
	shareUnheardOf = time.Minute // with an oracle of a version that hands nothing over
)

// share hands ready cells that this worker will not run soon to workers that wait for work, until
// ctx ends. Cells without a taker stay.
func (w *Worker) share(ctx context.Context) {
	pause, most := shareAgain, shareFewest
	for w.queue.awaitSurplus(ctx) {
		offers := w.queue.takeSurplus(most)
		cells := 0
		for _, o := range offers {
			cells += len(o)
		}
		taken, err := w.handOver(ctx, offers)
		switch {
		case errors.Is(err, tso.ErrUnsupported):
			pause = shareUnheardOf
		case err != nil:
			w.log.Debug("observers: cells were not handed over", "err", err)
			pause = shareFailed
		case taken > 0 && taken == cells: // others have room for more
			most = min(2*most, shareAtOnce)
			continue
		case taken > 0:
			most, pause = max(2*taken, shareFewest), shareAgain
		default:
			pause = min(2*pause, shareRarely)
		}
		if model.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// handOver makes offers to other workers, and keeps the cells that none takes.
func (w *Worker) handOver(ctx context.Context, offers [][]offered) (taken int, err error) {
	if len(offers) == 0 {
		return 0, nil
	}
	surplus := make([]model.Surplus, len(offers))
	for i, cells := range offers {
		offers[i] = slices.SortedFunc(slices.Values(cells), func(a, b offered) int { return cmp.Compare(a.row, b.row) })
		surplus[i] = surplusOf(w.id, offers[i])
	}
	firsts, err := w.engine.Dispatch.HandOver(ctx, surplus)
	if err != nil {
		firsts = make([]int, len(offers))
	}
	var gone, stay [][]offered
	for i, cells := range offers {
		gone, stay = append(gone, cells[:firsts[i]]), append(stay, cells[firsts[i]:])
	}
	w.queue.keep(stay)
	taken = w.queue.handedOver(gone)
	w.counters.handedOver.Add(int64(taken))
	return taken, err
}

// surplusOf is what another worker is told of offered cells.
func surplusOf(from uint64, cells []offered) model.Surplus {
	s := model.Surplus{From: from}
	for _, c := range cells {
		s.Notified = append(s.Notified, model.Notification{Cell: c.column.cell(c.row), Timestamp: c.ts})
		s.HandOvers = max(s.HandOvers, c.handOvers+1)
	}
	return s
}

// received queues cells that another worker hands over.
func (w *Worker) received(s model.Surplus) {
	first := s.Notified[0]
	col := w.coverage.taken[Column{first.Cell.Table, first.Cell.Column}]
	if col == nil {
		return
	}
	if s.From == w.id { // this worker has become busy since it asked
		w.queue.takeBack(col, s.Notified, s.HandOvers-1)
		return
	}
	waited := max(0, w.age(first.Timestamp)-col.wait())
	w.counters.received.Add(w.queue.receive(col, s.Notified, s.HandOvers, waited))
}
