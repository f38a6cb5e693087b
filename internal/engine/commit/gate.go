package commit

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// gate lets so many in at once. contention.mu guards it.
type gate struct {
	limit, running int
	waiting        [2]list.List // of *waiter: after a conflict, and others
	moved          time.Time    // when an attempt last left, or none waited
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

// open lets more in if no attempt has left for a time.
func (g *gate) open() {
	if time.Since(g.moved) >= stalled {
		g.limit *= 2
		g.opened++
		g.stuck = g.running
		g.moved = time.Now()
		g.admit()
	}
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
