package observers

// fifo is a queue whose memory shrinks again.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

// first returns the oldest item. The queue must not be empty.
func (f *fifo[T]) first() T { return f.items[f.head] }

// pop takes the oldest item. The queue must not be empty.
func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	switch {
	case f.head == len(f.items) && f.head > 1024:
		f.items, f.head = nil, 0
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head > 1024 && f.head > len(f.items)/2: // each item is moved at most once on average
		f.items, f.head = append([]T(nil), f.items[f.head:]...), 0
	}
	return v
}

// unpop puts items back that were popped, as the oldest.
func (f *fifo[T]) unpop(items []T) {
	if len(items) > f.head {
		f.items, f.head = append(items[:len(items):len(items)], f.items[f.head:]...), 0
		return
	}
	f.head -= len(items)
	copy(f.items[f.head:], items)
}
