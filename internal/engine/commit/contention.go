package commit

import (
	"context"
	"errors"
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
//     attempt had to wait, it grows by a quarter.
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
	stalled        = time.Second

	turnsAtOnce = 8           // of one attempt: the last cells on which its Update has conflicted
	mostWays    = turnsAtOnce // that an Update gives to others' turns
)

// contention is what a client knows of conflicts. The zero value is ready.
type contention struct {
	mu        sync.Mutex
	attempts  gate
	ended     int // attempts since the limit was last looked at
	conflicts int // of them
	crowded   bool
	cells     map[model.Cell]*contended
	held      int // turns
	halved    time.Time
}

func (c *contention) endAttempt(opened int) {
	c.attempts.leave(opened)
	c.attempts.admit()
}

// turns are what an attempt holds.
type turns struct {
	cells   []model.Cell
	gaveWay atomic.Bool // to another one's turn, so it ended
}

// begin waits until an attempt may begin: the first, or another one after conflicts on cells, which
// are sorted; or until closed is. The caller tells end how the attempt ended.
func (c *contention) begin(ctx context.Context, closed <-chan struct{}, cells []model.Cell, retry bool) (held *turns, end func(error), err error) {
	type turn struct {
		*contended
		opened int
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var taken []turn
	release := func() {
		c.held -= len(taken)
		for i, t := range taken {
			if t.end(t.opened); t.idle() && len(c.cells) > contendedCells {
				delete(c.cells, cells[i])
			}
		}
	}
	if err := c.awaitLongest(ctx, closed, cells); err != nil {
		return nil, nil, err
	}
	for _, cell := range cells {
		e := c.cell(cell)
		opened, err := c.enter(ctx, closed, &e.turns, 1, len(cells) > 1, e.end)
		if err != nil {
			release()
			return nil, nil, err
		}
		taken = append(taken, turn{e, opened})
		c.held++
	}
	opened, err := c.enter(ctx, closed, &c.attempts, firstLimit, retry, c.endAttempt)
	if err != nil {
		release()
		return nil, nil, err
	}
	held = &turns{cells: cells}
	return held, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endAttempt(opened)
		if !held.gaveWay.Load() {
			c.adapt(errors.Is(err, model.ErrConflict))
		}
		release()
	}, nil
}

// awaitLongest waits in the longest queue of several cells before any turn is taken: who waits
// there with turns at the others would hold up these for as long. Then it has waited, and goes
// first everywhere.
func (c *contention) awaitLongest(ctx context.Context, closed <-chan struct{}, cells []model.Cell) error {
	var longest *contended
	for _, cell := range cells {
		if e := c.cells[cell]; e != nil && (longest == nil || e.turns.queued() > longest.turns.queued()) {
			longest = e
		}
	}
	if len(cells) < 2 || longest == nil || longest.turns.queued() == 0 {
		return nil
	}
	opened, err := c.enter(ctx, closed, &longest.turns, 1, false, longest.end)
	if err == nil {
		longest.end(opened)
	}
	return err
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
		if w.Indexed != (model.Cell{}) {
			return model.AtEntry(model.GaveWay(w.Indexed, startTS), w.Cell)
		}
		return model.GaveWay(w.Cell, startTS)
	}
	return nil
}

// adapt counts an attempt that has ended. The caller holds c.mu.
func (c *contention) adapt(conflict bool) {
	if c.ended++; conflict {
		c.conflicts++
	}
	if c.ended < c.attempts.limit {
		return
	}
	switch limit := c.attempts.limit; {
	case c.conflicts*4 > c.ended:
		c.attempts.limit = max(fewestAttempts, limit/2)
	case c.conflicts*16 < c.ended && c.crowded:
		c.attempts.limit = min(mostAttempts, limit+max(1, limit/4))
		c.attempts.admit()
	}
	c.ended, c.conflicts, c.crowded = 0, 0, c.attempts.queued() > 0
}
