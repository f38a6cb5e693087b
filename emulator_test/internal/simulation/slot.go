package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
)

// slot holds a process and its work, and starts another one in the place of one that was killed.
type slot struct {
	w    *world
	name string
	work func(p *process)
	ctx  context.Context // of the work of all

	mu          sync.Mutex
	incarnation int
	p           *process // nil while none runs
}

// occupy makes a slot and starts its process.
func (w *world) occupy(ctx context.Context, name string, work func(*process)) error {
	sl := &slot{w: w, name: name, work: work, ctx: ctx}
	w.slots = append(w.slots, sl)
	return sl.begin(ctx)
}

func (sl *slot) begin(ctx context.Context) error {
	sl.mu.Lock()
	sl.incarnation++
	name := fmt.Sprintf("%s.%d", sl.name, sl.incarnation)
	sl.mu.Unlock()
	p, err := sl.w.open(ctx, name)
	if err != nil {
		return err
	}
	p.work.Go(func() { sl.work(p) })
	sl.mu.Lock()
	sl.p = p
	sl.mu.Unlock()
	return nil
}

// running is the process; nil while none runs.
func (sl *slot) running() *process {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.p
}

// kill ends the process. What is left of it is cleared away meanwhile.
func (sl *slot) kill() {
	sl.mu.Lock()
	p := sl.p
	sl.p = nil
	sl.mu.Unlock()
	if p == nil {
		return
	}
	p.kill()
	sl.w.ending.Go(func() { _ = p.leave() })
}

// restart kills the process and starts another one after a while.
func (sl *slot) restart(ctx context.Context, down time.Duration) {
	sl.kill()
	if retry.Sleep(ctx, down) != nil {
		return
	}
	if err := sl.begin(ctx); err != nil && ctx.Err() == nil {
		sl.w.problem("%s: %v", sl.name, err)
	}
}

// leave ends the process in order.
func (sl *slot) leave() {
	sl.mu.Lock()
	p := sl.p
	sl.p = nil
	sl.mu.Unlock()
	if p == nil {
		return
	}
	if err := p.leave(); err != nil { // phase two may take longer than Close waits
		sl.w.note("%s: closing: %v", p.name, err)
		if sl.w.cfg.intensity == 0 {
			sl.w.problem("%s: closing: %v", p.name, err)
		}
	}
}
