package observers

import (
	"slices"
	"time"
)

// HeadStart gives an observer's cells, or batches, a priority: a worker begins them before those of
// others that became ready up to d earlier. Nothing starves: what has been ready for longer than
// the head starts of the others comes first. 0, the default: first come, first served.
func HeadStart(d time.Duration) Option { return func(o *options) { o.headStart = d } }

// item is what a goroutine takes up: a cell, or a batch of an observer's cells.
type item struct {
	entry *entry
	batch *lane

	start   time.Time // when it became ready, less its head start
	arrival uint64
	line    int // of those with its head start
}

// before reports whether x is taken before y.
func (x *item) before(y *item) bool {
	if x.start.Equal(y.start) {
		return x.arrival < y.arrival
	}
	return x.start.Before(y.start)
}

// ready is what waits for a goroutine, ordered by when it became ready less its head start. Items
// with the same head start come in order, so that a fifo for each of the few head starts that there
// are is cheaper than a heap.
type ready struct {
	lines    []line
	arrivals uint64
	size     int
}

type line struct {
	headStart time.Duration
	items     fifo[item]
}

func (r *ready) len() int { return r.size }

// push adds an item that has become ready at now. Calls pass times in order.
func (r *ready) push(it item, headStart time.Duration, now time.Time) {
	r.arrivals++
	r.size++
	it.start, it.arrival = now.Add(-headStart), r.arrivals
	it.line = slices.IndexFunc(r.lines, func(l line) bool { return l.headStart == headStart })
	if it.line < 0 {
		it.line = len(r.lines)
		r.lines = append(r.lines, line{headStart: headStart})
	}
	r.lines[it.line].items.push(it)
}

// unpop puts items back that were popped, in that order: they come when they would have come.
func (r *ready) unpop(items []item) {
	r.size += len(items)
	for i := range r.lines {
		var back []item
		for _, it := range items {
			if it.line == i {
				back = append(back, it)
			}
		}
		r.lines[i].items.unpop(back)
	}
}

// pop takes the first item. There must be one.
func (r *ready) pop() item {
	var best *fifo[item]
	for i := range r.lines {
		f := &r.lines[i].items
		if f.len() > 0 && (best == nil || f.items[f.head].before(&best.items[best.head])) {
			best = f
		}
	}
	r.size--
	return best.pop()
}
