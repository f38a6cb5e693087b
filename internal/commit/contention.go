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
// are taken in the order of cells, so nobody waits in a circle. All of it only saves work;
// correctness rests on prewrite. So nothing may wait for it for ever: an Update within the function
// of another passes the queues by, and where no attempt has ended for a second (functions that wait
// for each other) they open, twice as wide each time.
//
// Rejected: a limit without the queues of cells. One that suits 500 contested cells lets the Updates
// of a single one lose to each other in turn, and one that suits a single cell holds up all others.
const (
	firstLimit     = 64    // attempts at once, to begin with
	fewestAttempts = 16    // at once: a few contested cells must not hold up the rest
	mostAttempts   = 16384 // at once
	stalled        = time.Second

	turnsAtOnce    = 8           // of one attempt: the last cells on which its Update has conflicted
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
	last      model.ConflictError
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

// turns are what an attempt holds.
type turns struct{ cells []model.Cell }

// errNotItsTurn ends an attempt that would disturb another one's turn.
var errNotItsTurn = errors.New("another attempt of this client has its turn there")

// begin waits until an attempt may begin: the first, or another one after conflicts on cells, which
// are sorted. The caller tells end how the attempt ended.
func (c *contention) begin(ctx context.Context, cells []model.Cell, retry bool) (held *turns, end func(error), err error) {
	var taken []*contended
	release := func() {
		c.held -= len(taken)
		for _, e := range taken {
			if e.turns.leave(); e.turns.running == 0 {
				e.turns.limit = 1 // it may have opened
			}
		}
	}
	abandon := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		release()
	}
	for _, cell := range cells {
		c.mu.Lock()
		e := c.cell(cell)
		c.mu.Unlock()
		if err := c.enter(ctx, &e.turns, 1, true); err != nil {
			abandon()
			return nil, nil, err
		}
		taken = append(taken, e)
		c.mu.Lock()
		c.held++
		c.mu.Unlock()
	}
	if err := c.enter(ctx, &c.attempts, firstLimit, retry); err != nil {
		abandon()
		return nil, nil, err
	}
	return &turns{cells}, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.attempts.leave()
		if !errors.Is(err, errNotItsTurn) {
			c.adapt(errors.Is(err, model.ErrConflict))
		}
		release()
	}, nil
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
		conflict := e.last
		conflict.Cell, conflict.StartTS = w.Cell, startTS
		return fmt.Errorf("%w: %w", &conflict, errNotItsTurn)
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
	e := c.cell(conflict.Cell)
	e.conflicts++
	e.last = *conflict
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
	if !errors.As(err, &conflict) {
		return cells
	}
	if slices.Contains(cells, conflict.Cell) {
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
