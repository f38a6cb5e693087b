package clumping

import (
	"container/heap"
	"iter"
	"time"
)

// clock runs processes in virtual time, one at a time and in a fixed order, so that a simulation has the same course
// whenever it is repeated.
type clock struct {
	now    time.Duration // since the beginning
	events eventHeap
	count  int
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

// at has do called when now has passed by d.
func (c *clock) after(d time.Duration, do func()) {
	c.count++
	heap.Push(&c.events, event{c.now + d, c.count, do})
}

// run lets time pass until end.
func (c *clock) run(end time.Duration) {
	for len(c.events) > 0 && c.events[0].at <= end {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = end
}

// process is a function that runs in virtual time.
type process struct {
	clock   *clock
	next    func() (time.Duration, bool)
	yield   func(time.Duration) bool
	stop    func()
	stopped bool
}

// parked is how long a process sleeps that somebody else wakes.
const parked = time.Duration(-1)

// start begins a process, which runs until f returns.
func (c *clock) start(f func(p *process)) *process {
	p := &process{clock: c}
	p.next, p.stop = iter.Pull(func(yield func(time.Duration) bool) {
		p.yield = yield
		f(p)
	})
	c.after(0, p.resume)
	return p
}

func (p *process) resume() {
	if d, ok := p.next(); ok && d != parked {
		p.clock.after(d, p.resume)
	}
}

// sleep returns false when the simulation is over.
func (p *process) sleep(d time.Duration) bool {
	if !p.stopped && !p.yield(d) {
		p.stopped = true
	}
	return !p.stopped
}

// wake lets a process go on that is parked.
func (p *process) wake() { p.clock.after(0, p.resume) }

// eventHeap implements heap.Interface, the next event on top.
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return last
}
