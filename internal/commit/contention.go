package commit

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// Of transactions that begin together and write the same cell, one commits. If thousands begin at
// once (a burst on a web server), each commit costs thousands of attempts, and the longer they take
// the more of them lose. So Update queues twice:
//
//   - A client makes only so many attempts at once. Of as many attempts as the limit allows, a
//     quarter may conflict; if more do, it falls by half. If fewer than a sixteenth do and somebody
//     had to wait, it grows by a quarter.
//   - After a conflict the next attempt waits its turn at the cells on which the Update has
//     conflicted. Those that lost there follow one another, instead of losing to each other again. An
//     attempt that would write a cell at which another has its turn ends before it sends its
//     prewrites, and queues there: so a first attempt does not win against one that has waited.
//
// Both queues are first come, first served, but attempts after a conflict go before first ones. Turns
// are taken in the order of cells, so nobody waits in a circle; who needs several first waits in the
// longest queue, without any. All of it only saves work; correctness rests on prewrite. So nothing may
// wait for it for ever: an Update within the function of another passes the queues by, and where no
// attempt has ended for a second (functions that wait for each other) they open, twice as wide each
// time; the queue of a cell closes again as those end that were stuck. Nor does an Update give way
// more than a few times.
//
// Rejected: a limit without the queues of cells. One that suits 500 contested cells lets the Updates
// of a single one lose to each other in turn, and one that suits a single cell holds up all others.
const (
	firstLimit     = 64    // attempts at once, to begin with
	fewestAttempts = 16    // at once: a few contested cells must not hold up the rest
	mostAttempts   = 16384 // at once
	stalled        = time.Second

	turnsAtOnce    = 8           // of one attempt: the last cells on which its Update has conflicted
	mostWays       = turnsAtOnce // that an Update gives to others' turns
	contendedCells = 256         // that are remembered, besides those with a queue
	contendedShown = 10          // in Stats
	contendedName  = 256         // bytes of a cell's name there
	contendedHalf  = time.Minute // after which a conflict counts half
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

// contended is a cell on which transactions have conflicted.
type contended struct {
	conflicts int64 // fewer and fewer, if there are no new ones
	turns     gate
}

// gate lets so many in at once. contention.mu guards it.
type gate struct {
	limit, running int
	waiting        [2]list.List // of *waiter: after a conflict, and others
	moved          time.Time    // when somebody last left, or nobody waited
	opened         int          // how often
	stuck          int          // of those who are in, who were when it last opened
}

// waiter waits at a gate until admitted is closed.
type waiter struct {
	admitted chan struct{}
	opened   int // how often the gate had opened then
}

func (g *gate) queued() int { return g.waiting[0].Len() + g.waiting[1].Len() }

// admit lets in who may enter.
func (g *gate) admit() {
	for i := range g.waiting {
		for g.running < g.limit && g.waiting[i].Len() > 0 {
			g.running++
			w := g.waiting[i].Remove(g.waiting[i].Front()).(*waiter)
			w.opened = g.opened
			close(w.admitted)
		}
	}
}

// leave ends what began when the gate had opened so often. The caller admits others.
func (g *gate) leave(opened int) {
	g.running--
	g.moved = time.Now()
	if opened != g.opened {
		g.stuck--
	}
}

// open lets more in if nobody has left for a time.
func (g *gate) open() {
	if time.Since(g.moved) >= stalled {
		g.limit *= 2
		g.opened++
		g.stuck = g.running
		g.moved = time.Now()
		g.admit()
	}
}

// end ends a turn. One at a time has it, besides those that are stuck.
func (e *contended) end(opened int) {
	e.turns.leave(opened)
	e.turns.limit = e.turns.stuck + 1
	e.turns.admit()
}

func (c *contention) endAttempt(opened int) {
	c.attempts.leave(opened)
	c.attempts.admit()
}

// enter waits until the gate, whose limit is limit in the beginning, lets the caller in: it ends
// with leave what began when the gate had opened so often. It unlocks c.mu, which the caller has
// locked, and locks it again.
func (c *contention) enter(ctx context.Context, closed <-chan struct{}, g *gate, limit int, retry bool, leave func(opened int)) (opened int, err error) {
	g.limit = cmp.Or(g.limit, limit)
	if g.running < g.limit && g.queued() == 0 {
		g.running++
		return g.opened, nil
	}
	c.crowded = c.crowded || g == &c.attempts
	if g.queued() == 0 {
		g.moved = time.Now()
	}
	line := &g.waiting[1]
	if retry {
		line = &g.waiting[0]
	}
	w := &waiter{admitted: make(chan struct{})}
	place := line.PushBack(w)
	c.mu.Unlock()
	err = c.await(ctx, closed, g, w)
	c.mu.Lock()
	if err == nil {
		return w.opened, nil
	}
	select {
	case <-w.admitted:
		leave(w.opened)
	default:
		line.Remove(place)
	}
	return 0, err
}

func (c *contention) await(ctx context.Context, closed <-chan struct{}, g *gate, w *waiter) error {
	timer := time.NewTimer(stalled)
	defer timer.Stop()
	for {
		select {
		case <-w.admitted:
			return nil
		case <-timer.C:
			c.mu.Lock()
			g.open()
			c.mu.Unlock()
			timer.Reset(stalled)
		case <-closed:
			return fmt.Errorf("percolator: %w", model.ErrClosed)
		case <-ctx.Done():
			return model.WithContext(ctx, ctx.Err())
		}
	}
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

// awaitLongest waits in the longest queue of several cells before any turn is taken: who waits there
// with turns at the others would hold up these for as long. Then it has waited, and goes first
// everywhere.
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

// note remembers a conflict.
func (c *contention) note(err error) {
	var conflict *model.ConflictError
	if !errors.As(err, &conflict) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.halved) >= contendedHalf {
		c.halved = now
		for cell, e := range c.cells {
			if e.conflicts /= 2; e.conflicts == 0 && e.idle() {
				delete(c.cells, cell)
			}
		}
	}
	c.cell(conflict.Cell).conflicts++
}

// cell returns what is known of a cell. The least contended of some cells without a queue makes room
// for a new one. The caller holds c.mu.
func (c *contention) cell(cell model.Cell) *contended {
	if e := c.cells[cell]; e != nil {
		return e
	}
	if c.cells == nil {
		c.cells = map[model.Cell]*contended{}
	}
	if len(c.cells) >= contendedCells {
		var least model.Cell
		looked := 0
		for other, e := range c.cells {
			if looked++; looked > contendedCells { // the others have queues, mostly
				break
			}
			if e.idle() && (least == model.Cell{} || e.conflicts < c.cells[least].conflicts) {
				least = other
			}
		}
		delete(c.cells, least)
	}
	e := new(contended)
	c.cells[cell] = e
	return e
}

func (e *contended) idle() bool { return e.turns.running+e.turns.queued() == 0 }

// cutName keeps what is shown of a long row key short.
func cutName(name string) string {
	if len(name) <= contendedName {
		return name
	}
	return strings.ToValidUTF8(name[:contendedName], "") + "…"
}

// contested adds the cell of a conflict to the last ones of an Update, which are sorted.
func contested(cells []model.Cell, err error) []model.Cell {
	var conflict *model.ConflictError
	if !errors.As(err, &conflict) || conflict.Cell == (model.Cell{}) || slices.Contains(cells, conflict.Cell) {
		return cells
	}
	if len(cells) == turnsAtOnce {
		cells = nil
	}
	cells = append(slices.Clone(cells), conflict.Cell)
	slices.SortFunc(cells, model.CompareCells)
	return cells
}

// Contention is how Updates of this client queue now, and on which cells its transactions have
// conflicted most.
func (c *Committer) Contention() telemetry.Contention {
	c.contention.mu.Lock()
	defer c.contention.mu.Unlock()
	g := &c.contention.attempts
	out := telemetry.Contention{Attempts: g.running, Waiting: g.queued(), Limit: cmp.Or(g.limit, firstLimit)}
	for cell, e := range c.contention.cells {
		out.Waiting += e.turns.queued()
		if e.conflicts > 0 {
			out.Cells = append(out.Cells, telemetry.ContendedCell{Cell: cutName(cell.String()), Conflicts: e.conflicts, Waiting: e.turns.queued()})
		}
	}
	slices.SortFunc(out.Cells, func(a, b telemetry.ContendedCell) int {
		return cmp.Or(cmp.Compare(b.Conflicts, a.Conflicts), cmp.Compare(a.Cell, b.Cell))
	})
	out.Cells = out.Cells[:min(len(out.Cells), contendedShown)]
	return out
}
