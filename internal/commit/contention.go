package commit

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/telemetry"
)

// Of transactions that begin together and write the same cell, one commits. If thousands begin at
// once (a burst on a web server), each commit costs thousands of attempts, and the longer they take
// the more of them lose. So Update queues twice:
//
//   - A client makes only so many attempts at once. Of as many attempts as the limit allows, more
//     than a quarter may conflict: then it falls by half. If fewer than a sixteenth do and somebody
//     had to wait, it grows by a quarter.
//   - After a conflict the next attempt waits its turn at the contested cell. Those that lost there
//     follow one another, instead of losing to each other again.
//
// Both queues are first come, first served, but attempts after a conflict go before first ones. Both
// only save work; correctness rests on prewrite. So nothing may wait for them for ever: an Update
// within the function of another passes them by, and where no attempt has ended for a second
// (functions that wait for each other) they open, twice as wide each time.
//
// Rejected: a limit without the queues of cells. A limit that suits 500 contested cells lets the
// Updates of a single one lose to each other in turn.
const (
	firstLimit   = 64    // attempts at once, to begin with
	mostAttempts = 16384 // at once
	fewestEnded  = 16    // attempts between two changes of the limit
	stalled      = time.Second

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
	waiting        [2]list.List // of chan struct{}, which are closed: after a conflict, and others
	moved          time.Time    // when somebody last left, or nobody waited
}

func (g *gate) queued() int { return g.waiting[0].Len() + g.waiting[1].Len() }

// admit lets in who may enter.
func (g *gate) admit() {
	for i := range g.waiting {
		for g.running < g.limit && g.waiting[i].Len() > 0 {
			g.running++
			close(g.waiting[i].Remove(g.waiting[i].Front()).(chan struct{}))
		}
	}
}

func (g *gate) leave() {
	g.running--
	g.moved = time.Now()
	g.admit()
}

// open lets more in if nobody has left for a time.
func (g *gate) open() {
	if time.Since(g.moved) >= stalled {
		g.limit *= 2
		g.moved = time.Now()
		g.admit()
	}
}

// enter waits until the gate, whose limit is limit in the beginning, lets the caller in, who has to
// leave it.
func (c *contention) enter(ctx context.Context, g *gate, limit int, retry bool) error {
	c.mu.Lock()
	g.limit = cmp.Or(g.limit, limit)
	if g.running < g.limit && g.queued() == 0 {
		g.running++
		c.mu.Unlock()
		return nil
	}
	c.crowded = c.crowded || g == &c.attempts
	if g.queued() == 0 {
		g.moved = time.Now()
	}
	line := &g.waiting[1]
	if retry {
		line = &g.waiting[0]
	}
	admitted := make(chan struct{})
	place := line.PushBack(admitted)
	c.mu.Unlock()

	timer := time.NewTimer(stalled)
	defer timer.Stop()
	for {
		select {
		case <-admitted:
			return nil
		case <-timer.C:
			c.mu.Lock()
			g.open()
			c.mu.Unlock()
			timer.Reset(stalled)
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			select {
			case <-admitted:
				g.leave()
			default:
				line.Remove(place)
			}
			return model.WithContext(ctx, ctx.Err())
		}
	}
}

// begin waits until an attempt may begin, after one that ended in last if that is not nil. The
// caller tells end how the attempt ended.
func (c *contention) begin(ctx context.Context, last error) (end func(error), err error) {
	var turn *contended
	if cell, ok := contestedCell(last); ok {
		c.mu.Lock()
		turn = c.cell(cell)
		c.mu.Unlock()
		if err := c.enter(ctx, &turn.turns, 1, true); err != nil {
			return nil, err
		}
	}
	if err := c.enter(ctx, &c.attempts, firstLimit, last != nil); err != nil {
		c.leave(turn)
		return nil, err
	}
	return func(err error) {
		c.mu.Lock()
		c.attempts.leave()
		c.adapt(errors.Is(err, model.ErrConflict))
		c.mu.Unlock()
		c.leave(turn)
	}, nil
}

// leave ends a turn; nil: there was none.
func (c *contention) leave(turn *contended) {
	if turn == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn.turns.leave(); turn.turns.running == 0 {
		turn.turns.limit = 1 // it may have opened
	}
}

// adapt counts an attempt that has ended. The caller holds c.mu.
func (c *contention) adapt(conflict bool) {
	if c.ended++; conflict {
		c.conflicts++
	}
	if c.ended < max(fewestEnded, c.attempts.limit) {
		return
	}
	switch limit := c.attempts.limit; {
	case c.conflicts*4 > c.ended:
		c.attempts.limit = max(1, limit/2)
	case c.conflicts*16 < c.ended && c.crowded:
		c.attempts.limit = min(mostAttempts, limit+max(1, limit/4))
		c.attempts.admit()
	}
	c.ended, c.conflicts, c.crowded = 0, 0, c.attempts.queued() > 0
}

// note remembers a conflict.
func (c *contention) note(err error) {
	cell, ok := contestedCell(err)
	if !ok {
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
	c.cell(cell).conflicts++
}

// cell returns what is known of a cell. The least contended cell without a queue makes room for a
// new one. The caller holds c.mu.
func (c *contention) cell(cell model.Cell) *contended {
	if e := c.cells[cell]; e != nil {
		return e
	}
	if c.cells == nil {
		c.cells = map[model.Cell]*contended{}
	}
	if len(c.cells) >= contendedCells {
		var least model.Cell
		for other, e := range c.cells {
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

// contestedCell is the cell of a conflict.
func contestedCell(err error) (model.Cell, bool) {
	var conflict *model.ConflictError
	if !errors.As(err, &conflict) {
		return model.Cell{}, false
	}
	return conflict.Cell, true
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
