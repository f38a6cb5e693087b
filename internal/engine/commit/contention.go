package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Of transactions that begin together and write the same cell, one commits. If thousands begin at
// once (a burst on a web server), each commit costs thousands of attempts, and the longer they take
// the more of them lose. So Update queues twice:
//
//   - A client makes only so many attempts at once. Of as many attempts as the limit allows, a
//     quarter may conflict; if more do, it falls by half. If fewer than a sixteenth do and an
//     attempt had to wait, it grows by a quarter. Attempts that take much longer the more there are
//     at once wait for a processor, or for the store: then it does not grow, and falls again.
//   - After a conflict the next attempt waits its turn at the cells on which the Update has
//     conflicted. Those that lost there follow one another, instead of losing to each other again.
//     An attempt that would write a cell at which another has its turn ends before it sends its
//     prewrites, and queues there: so a first attempt does not win against one that has waited.
//
// Both queues are first come, first served, but attempts after a conflict go before first ones.
// Attempts take turns in the order of cells, so none waits in a circle; one with several first
// waits in the longest queue, without any. All of it only saves work; correctness rests on
// prewrite. So nothing may wait for it for ever: an Update within the function of another passes
// the queues by, and where no attempt has ended for a second (functions that wait for each other)
// they open, twice as wide each time; the queue of a cell closes again as those end that were
// stuck. Nor does an Update give way more than a few times.
//
// Rejected: a limit without the queues of cells. One that suits 500 contested cells lets the
// Updates of a single one lose to each other in turn, and one that suits a single cell holds up all
// others.
const (
	firstLimit     = 64    // attempts at once, to begin with
	fewestAttempts = 16    // at once: a few contested cells must not hold up the rest
	mostAttempts   = 16384 // at once
	crawling       = 2     // times as long as with firstLimit attempts at once: there are too many
	probeEvery     = 64    // samples
	stalled        = time.Second

	timesLeft   = 2  // attempts that must fit in the time that an Update has left when its turn comes,
	lateShare   = 4  // unless it has this share of its time left
	tookSamples = 16 // that the mean of what attempts take goes by

	turnsAtOnce = 8           // of one attempt: the last cells on which its Update has conflicted
	mostWays    = turnsAtOnce // that an Update gives to others' turns
)

// contention is what a client knows of conflicts. The zero value is ready.
type contention struct {
	inCommit atomic.Int64 // of those in attempts that are in Begin or Commit

	mu       sync.Mutex // guards the rest, and the gates
	attempts gate
	sample   sample
	took     time.Duration // by attempts, lately
	cells    map[model.Cell]*contended
	held     int       // turns that attempts have, of all cells
	halved   time.Time // when the conflicts of cells last were

	// quick is how long a commit took in the last sample of at most firstLimit attempts at once.
	// Every probeEvery samples the limit falls to that for one, as transactions may have become
	// larger; probing is what it was before, 0: it is not that one.
	quick   time.Duration
	samples int
	probing int
}

// sample is of the attempts since the limit was last adapted.
type sample struct {
	ended     int
	conflicts int  // that ended with one
	crowded   bool // one had to wait

	earlier int           // that are still to end, and began before the limit fell
	commits int           // that were tried
	spent   time.Duration // by these, in Begin and Commit: what the caller does counts for nothing
}

// mean is how long a commit took; 0: none was tried.
func (s *sample) mean() time.Duration { return s.spent / time.Duration(max(1, s.commits)) }

// turns are what an attempt has at the cells on which its Update has conflicted.
type turns struct {
	cells   []model.Cell // sorted
	taken   []turn       // at the first of cells: at all of them, once the attempt has started
	gaveWay atomic.Bool  // the attempt ended for the turn of another
}

// turn is one at a cell, which it had when the cell's gate had opened so often.
type turn struct {
	at     *contended
	opened int
}

// begin waits until an attempt may begin: the first, or another one after conflicts on cells, which
// are sorted; or until the client is closed. The caller tells end how the attempt ended.
func (c *contention) begin(ctx context.Context, s service, cells []model.Cell, retry bool) (held *turns, end func(time.Duration, error), err error) {
	came := time.Now()
	if err := c.awaitLongest(ctx, s, cells); err != nil {
		return nil, nil, err
	}
	held = &turns{cells: cells}
	var opened int
	if err = c.takeTurns(ctx, s, held); err == nil {
		opened, err = c.enter(ctx, s, func() (int, *waiter) { return c.arrive(retry) }, c.endAttempt)
	}
	started := time.Now()
	if err == nil {
		err = c.late(ctx, came, started, opened)
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endTurns(held)
		return nil, nil, err
	}
	return held, func(spent time.Duration, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endAttempt(opened)
		c.learn(time.Since(started), ctx.Err() != nil)
		if !held.gaveWay.Load() {
			c.adapt(spent, errors.Is(err, model.ErrConflict))
		}
		c.endTurns(held)
	}, nil
}

// late ends an Update whose turn comes so late that an attempt would hardly end in time: all that
// it did would be in vain, and keep the others waiting until they are late as well.
func (c *contention) late(ctx context.Context, came, now time.Time, opened int) error {
	end, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := end.Sub(now); left >= min(timesLeft*c.took, end.Sub(came)/lateShare) {
		return nil
	}
	c.endAttempt(opened)
	return fmt.Errorf("percolator: the Update's turn came after %v, when less was left than two attempts take (%v each): %w",
		now.Sub(came).Round(time.Millisecond), c.took.Round(time.Millisecond), context.DeadlineExceeded)
}

// learn notes how long an attempt took, or that it was cut short after so long. The caller holds
// c.mu.
func (c *contention) learn(took time.Duration, cut bool) {
	if cut {
		took = max(2*took, c.took)
	}
	c.took += (took - c.took) / tookSamples
}

// arrive is where an attempt arrives that has its turns.
func (c *contention) arrive(retry bool) (opened int, w *waiter) {
	opened, w = c.attempts.arrive(firstLimit, retry)
	c.sample.crowded = c.sample.crowded || w != nil
	return opened, w
}

func (c *contention) endAttempt(opened int) {
	c.attempts.leave(opened)
	c.attempts.admit()
}

// takeTurns takes one turn after the other. With an error, the caller ends those that were taken.
func (c *contention) takeTurns(ctx context.Context, s service, t *turns) error {
	for _, cell := range t.cells {
		var at *contended
		arrive := func() (int, *waiter) {
			at = c.cell(cell)
			return at.turns.arrive(1, len(t.cells) > 1)
		}
		opened, err := c.enter(ctx, s, arrive, func(opened int) { at.end(opened) })
		if err != nil {
			return err
		}
		t.taken = append(t.taken, turn{at, opened})
		c.mu.Lock()
		c.held++
		c.mu.Unlock()
	}
	return nil
}

// endTurns lets others have the turns. The caller holds c.mu.
func (c *contention) endTurns(t *turns) {
	c.held -= len(t.taken)
	for i, turn := range t.taken {
		if turn.at.end(turn.opened); turn.at.idle() && len(c.cells) > contendedCells {
			delete(c.cells, t.cells[i])
		}
	}
}

// awaitLongest waits in the longest queue of several cells before any turn is taken: who waits
// there with turns at the others would hold up these for as long. Then it has waited, and goes
// first everywhere.
func (c *contention) awaitLongest(ctx context.Context, s service, cells []model.Cell) error {
	if len(cells) < 2 {
		return nil
	}
	var longest *contended
	arrive := func() (int, *waiter) {
		longest = c.longest(cells)
		if longest == nil {
			return 0, nil
		}
		return longest.turns.arrive(1, false)
	}
	opened, err := c.enter(ctx, s, arrive, func(opened int) { longest.end(opened) })
	if err == nil && longest != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		longest.end(opened)
	}
	return err
}

// longest is the cell with the longest queue, nil if all have none. The caller holds c.mu.
func (c *contention) longest(cells []model.Cell) (longest *contended) {
	most := 0
	for _, cell := range cells {
		if e := c.cells[cell]; e != nil && e.turns.queued() > most {
			longest, most = e, e.turns.queued()
		}
	}
	return longest
}

// check returns a conflict if another attempt has its turn at one of the cells that are written.
func (c *contention) check(held *turns, startTS tso.Timestamp, writes []*Write) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held == nil || c.held == len(held.cells) {
		return nil
	}
	for _, w := range writes {
		e := c.cells[w.Cell]
		if e == nil || e.turns.limit != 1 || e.turns.running == 0 || slices.Contains(held.cells, w.Cell) {
			continue
		}
		held.gaveWay.Store(true)
		return conflictOf(w, model.ConflictError{StartTS: startTS, GaveWay: true})
	}
	return nil
}

// during calls Begin or Commit, of an attempt that has passed the gate if queued, and returns how
// long it took.
func (c *contention) during(queued bool, call func()) time.Duration {
	if queued {
		c.inCommit.Add(1)
		defer c.inCommit.Add(-1)
	}
	started := time.Now()
	call()
	return time.Since(started)
}

// adapt counts an attempt that has ended, and has spent so long in Begin and Commit; 0: it tried no
// commit. The caller holds c.mu.
func (c *contention) adapt(spent time.Duration, conflict bool) {
	of := &c.sample
	if of.earlier > 0 {
		of.earlier--
		return
	}
	if of.ended++; conflict {
		of.conflicts++
	}
	if spent > 0 {
		of.commits++
		of.spent += spent
	}
	limit := c.attempts.limit
	if of.ended < limit {
		return
	}
	c.samples++
	mean := of.mean()
	if limit <= firstLimit {
		c.quick = mean
	}
	earlier := 0
	switch {
	case c.probing > 0:
		c.attempts.limit, c.probing = c.probing, 0
		c.attempts.admit()
	case of.conflicts*4 > of.ended:
		c.attempts.limit = max(fewestAttempts, limit/2)
	case limit > firstLimit && mean > crawling*c.quick:
		c.attempts.limit = max(firstLimit, limit-limit/4)
	case limit > firstLimit && c.samples%probeEvery == 0:
		c.attempts.limit, c.probing = firstLimit, limit
		earlier = c.attempts.running
	case of.conflicts*16 < of.ended && of.crowded && mean <= crawling*c.quick*3/4:
		c.attempts.limit = min(mostAttempts, limit+max(1, limit/4))
		c.attempts.admit()
	}
	*of = sample{crowded: c.attempts.queued() > 0, earlier: earlier}
}
