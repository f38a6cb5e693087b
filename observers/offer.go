package observers

import (
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	readyPerSlot   = 4    // cells for each slot that may be ready without being a backlog
	batchesPerSlot = 1    // full batches for each slot that may be gathered without being one
	maxHandOvers   = 2    // of a cell
	maxExamined    = 1024 // entries that are examined for one offer of a kind
)

// handOver is what a queue keeps for handing its backlog to other workers, and for taking theirs.
// queue.mu guards it.
type handOver struct {
	// slots are those of all observers together. readyPerSlot cells for each may be ready here; fewer
	// ready cells than slots leave some of them idle.
	slots int
	// backlog and idle, of capacity 1, receive when there may be a backlog, or idle slots.
	backlog, idle chan struct{}
	// failing counts the attempts that failed since the last one that did not.
	failing int
	// first is which kind of backlog takeBacklog took first, the last time: that of a runner, or,
	// after those, single cells.
	first int
	lent  loans
}

// hasIdleSlots reports whether there is little that waits for a slot, and room for more.
func (q *queue) hasIdleSlots() bool {
	return q.ready.len() < q.handOver.slots && !q.room.full(dispatched) && !slices.ContainsFunc(q.runners, func(rn *runner) bool {
		return rn.maxCells > 1 && rn.gathered.cells.len() >= rn.maxCells
	})
}

// backlog is how many ready cells, and batches, are more than this worker runs soon.
func (q *queue) backlog() int { return max(0, q.ready.len()-readyPerSlot*q.handOver.slots) }

// backlogOf is how many of the gathered cells of an observer are more than its slots take in one
// batch each. Fewer than a batch are none: run by themselves, they would cost more requests than in
// the next batch here. Where batches conflict, there are none either.
func (q *queue) backlogOf(rn *runner) int {
	slots := int(rn.congestion.most)
	if rn.congestion.limit() < slots {
		return 0
	}
	if rn.concurrent > 0 {
		slots = min(slots, rn.concurrent)
	}
	if more := rn.gathered.cells.len() - batchesPerSlot*slots*rn.maxCells; more >= rn.offerSize() {
		return more
	}
	return 0
}

// offerSize is how many cells of a batch are offered together.
func (rn *runner) offerSize() int { return max(1, min(rn.maxCells, offerMost)) }

// offer is a cell in stateOffered or stateReturned, and where it was.
type offer struct {
	*entry
	ts    tso.Timestamp // its newest notification when it was offered
	item  item          // what led to it in queue.ready, if batch is nil
	batch *runner       // in whose gathered cells it was
}

// takeBacklog takes of each kind of backlog, single cells and the batches of each observer, the
// oldest: at most most cells, or one batch if that has more. What it returns together is to run
// together. Each kind comes first in turn, as all may be more than one request holds. The caller
// ends each offer with handedOver or keep.
func (q *queue) takeBacklog(most int) (offers [][]offer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kinds := 1 + len(q.runners)
	q.handOver.first = (q.handOver.first + 1) % kinds
	for i := range kinds {
		if kind := (q.handOver.first + i) % kinds; kind == len(q.runners) {
			offers = append(offers, q.takeSingles(most)...)
		} else {
			offers = append(offers, q.takeBatches(q.runners[kind], most)...)
		}
	}
	return offers
}

func (q *queue) takeSingles(most int) (offers [][]offer) {
	var kept []item
	for n := min(q.backlog(), maxExamined); n > 0 && len(offers) < most; n-- {
		it := q.ready.pop()
		if it.entry == nil || !it.entry.mayBeOffered() {
			kept = append(kept, it)
			continue
		}
		it.entry.state = stateOffered
		offers = append(offers, []offer{{entry: it.entry, ts: it.entry.newest, item: it}})
	}
	q.ready.unpop(kept)
	return offers
}

// takeBatches takes whole batches of an observer.
func (q *queue) takeBatches(rn *runner, most int) (offers [][]offer) {
	size, fit := rn.offerSize(), 0
	most = max(1, most/size) * size
	var popped []*entry
	for n := min(q.backlogOf(rn), maxExamined); n > 0 && fit < most; n-- {
		e := rn.gathered.cells.pop()
		popped = append(popped, e)
		if e.mayBeOffered() {
			fit++
		}
	}
	var kept []*entry
	var cells []offer
	for _, e := range popped {
		if len(cells) == fit-fit%size || !e.mayBeOffered() {
			kept = append(kept, e)
			continue
		}
		e.state = stateOffered
		cells = append(cells, offer{entry: e, ts: e.newest, batch: rn})
	}
	rn.gathered.cells.unpop(kept)
	return slices.Collect(slices.Chunk(cells, size))
}

// mayBeOffered reports whether this worker has learned nothing of the cell that another one would
// have to find out: no observer of it has run, failed or been parked.
func (e *entry) mayBeOffered() bool {
	if e.handOvers >= maxHandOvers || e.stored || e.column.owned != byNobody {
		return false
	}
	return !slices.ContainsFunc(e.tasks, func(t task) bool {
		return t.ran > 0 || t.parked > 0 || t.failures > 0 || t.attempts > 0 || t.alone || t.activity == taskPaused
	})
}

// keep ends offers that were not taken. They are in the order of takeBacklog.
func (q *queue) keep(offers [][]offer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.restore(slices.Concat(offers...))
}

// restore makes offered cells ready as they were.
func (q *queue) restore(cells []offer) {
	var items []item
	gathered := map[*runner][]*entry{}
	for _, c := range cells {
		c.state = stateReady
		switch {
		case q.phase == queueClosed:
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
		q.readyBatch(rn, time.Now())
	}
}

// handedOver ends offers that other workers have taken, and returns how many cells these are: some
// may have come back, or been notified again.
func (q *queue) handedOver(offers [][]offer) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var back []offer
	for _, c := range slices.Concat(offers...) {
		switch {
		case q.phase != queueClosed && c.newest > c.ts:
			q.schedule(c.entry, now)
		case q.phase != queueClosed && c.state == stateReturned:
			back = append(back, c)
		default:
			q.forget(c.entry)
			q.handOver.lent.add(cellKey{c.column, c.row}, c.ts, now)
			n++
		}
	}
	q.restore(back)
	if n > 0 && q.phase != queueClosed {
		q.awaitReturn()
	}
	return n
}

// receive queues cells that another worker has handed over, all at once, as they are to run
// together. They are due now, since they have waited there: waited is for how long, beyond what
// their observers are to wait. It returns how many were new.
func (q *queue) receive(col *column, cells []model.Notification, handOvers int, waited time.Duration) (n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range cells {
		if v, _ := q.insert(col, c.Cell.Row, c.Timestamp, arrival{from: fromHandOver, handOvers: handOvers}); v == accepted || v == joined {
			n++
		}
	}
	q.delay.note(waited, time.Now())
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
		q.handOver.lent.remove(cellKey{col, row})
		q.insert(col, row, c.Timestamp, arrival{from: fromHandOver, handOvers: handOvers})
	}
}
