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
	joined chan struct{} // closed when the line to the oracle is whole again; nil: it is

	suspended bool // it was stopped, or its machine, at least once
}

// reach waits until the line to the oracle is whole.
func (g *gate) reach(ctx context.Context) error {
	for {
		g.mu.Lock()
		joined := g.joined
		g.mu.Unlock()
		if joined == nil {
			return nil
		}
		select {
		case <-joined:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cut interrupts the line to the oracle until the function that it returns is called.
func (g *gate) cut() (join func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.joined != nil {
		return func() {}
	}
	joined := make(chan struct{})
	g.joined = joined
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.joined = nil
		close(joined)
	}
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
	g.suspended = true
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

// ran reports whether the process has always run.
func (g *gate) ran() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.suspended
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
