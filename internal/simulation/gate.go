package simulation

import (
	"context"
	"sync"
)

// gate is where the requests of a process to the oracle, and the answers, pass. Closed, it lets
// nothing through: the process is stopped, or dead.
type gate struct {
	mu     sync.Mutex
	dead   bool
	opened chan struct{} // closed when the gate opens again; nil: it is open
}

// pass waits until the gate is open. Nothing passes that of a dead process, whose caller waits for
// the end of its context.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		dead, opened := g.dead, g.opened
		g.mu.Unlock()
		switch {
		case dead:
			<-ctx.Done()
			return ctx.Err()
		case opened == nil:
			return nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) kill() {
	g.mu.Lock()
	g.dead = true
	g.mu.Unlock()
	g.open()
}

func (g *gate) killed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}
