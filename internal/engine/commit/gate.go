package commit

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// gate lets so many in at once. contention.mu guards it; whenever that is free, nobody waits while
// fewer than limit are in. More are in only after the limit has fallen.
type gate struct {
	limit   int          // 0: nobody has come yet
	running int          // who are in
	waiting [2]list.List // of *waiter, first come, first served: after a conflict, and others after these
	moved   time.Time    // when somebody last left, or the first of those who wait came
	opened  int          // how often it has opened because nobody left
	stuck   int          // of those who are in, who were when it last opened
}

// service is what attempts wait for besides each other.
type service struct {
	closed   <-chan struct{} // with the client
	bigtable *store.Backpressure
}

// waiter waits at a gate until admitted is closed, which takes it out of its line.
type waiter struct {
	gate     *gate
	line     *list.List
	place    *list.Element
	admitted chan struct{}
	opened   int // how often the gate had opened then
}

func (g *gate) queued() int { return g.waiting[0].Len() + g.waiting[1].Len() }

// arrive lets the caller in at once, or else returns its place in line. The gate's first limit is
// limit. Who is in ends with leave what began when the gate had opened so often.
func (g *gate) arrive(limit int, retry bool) (opened int, w *waiter) {
	g.limit = cmp.Or(g.limit, limit)
	if g.running < g.limit && g.queued() == 0 {
		g.running++
		return g.opened, nil
	}
	if g.queued() == 0 {
		g.moved = time.Now()
	}
	w = &waiter{gate: g, line: &g.waiting[1], admitted: make(chan struct{})}
	if retry {
		w.line = &g.waiting[0]
	}
	w.place = w.line.PushBack(w)
	return 0, w
}

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

// open lets in twice as many.
func (g *gate) open() {
	g.limit *= 2
	g.opened++
	g.stuck = g.running
	g.moved = time.Now()
	g.admit()
}

// open opens a gate that nobody has left for a time, unless that is for Bigtable or the oracle:
// more attempts would only wait for these, too, and all go on at once when they answer again. So it
// is where Bigtable refuses everything, and where most of those who are in are in Begin or Commit,
// which end by themselves.
func (c *contention) open(g *gate, s service) {
	switch {
	case time.Since(g.moved) < stalled:
	case g == &c.attempts && 2*int(c.inCommit.Load()) > g.running, s.bigtable.Refuses(stalled):
		g.moved = time.Now()
	default:
		g.open()
	}
}

// enter waits until a gate has let in who arrived there: arrive and leave are called with c.mu
// locked, which enter does not hold while it waits.
func (c *contention) enter(ctx context.Context, s service, arrive func() (opened int, w *waiter), leave func(opened int)) (opened int, err error) {
	c.mu.Lock()
	opened, w := arrive()
	c.mu.Unlock()
	if w == nil {
		return opened, nil
	}
	if err = c.await(ctx, s, w); err == nil {
		return w.opened, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-w.admitted: // meanwhile
		leave(w.opened)
	default:
		w.line.Remove(w.place)
	}
	return 0, err
}

// await waits until the gate lets w in, and opens the gate where it is stuck.
func (c *contention) await(ctx context.Context, s service, w *waiter) error {
	timer := time.NewTimer(stalled)
	defer timer.Stop()
	for {
		select {
		case <-w.admitted:
			return nil
		case <-timer.C:
			c.mu.Lock()
			c.open(w.gate, s)
			c.mu.Unlock()
			timer.Reset(stalled)
		case <-s.closed:
			return fmt.Errorf("percolator: %w", model.ErrClosed)
		case <-ctx.Done():
			return retry.WithContext(ctx, ctx.Err())
		}
	}
}
