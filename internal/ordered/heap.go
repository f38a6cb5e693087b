// Package ordered keeps things in order that come and go in any order, and makes lists of lists.
// The engine, the observers and the oracle stand on it.
package ordered

import "container/heap"

// Item is what a [Heap] holds: usually a pointer, whose place the heap tells it.
type Item[T any] interface {
	// Before reports whether the item comes first.
	Before(other T) bool
	// Placed tells the item its place in the heap; -1: it has left.
	Placed(at int)
}

// Heap is items of which the first one is at hand. The zero value is empty. Who changes the order
// of an item calls Fix, or Init for many.
type Heap[T Item[T]] struct{ items items[T] }

// Len is how many items there are.
func (h *Heap[T]) Len() int { return len(h.items) }

// First is the item that comes first. There must be one.
func (h *Heap[T]) First() T { return h.items[0] }

// All is the items in no order. They stay the heap's.
func (h *Heap[T]) All() []T { return h.items }

// Push adds an item.
func (h *Heap[T]) Push(x T) { heap.Push(&h.items, x) }

// Pop removes the item that comes first. There must be one.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) }

// Remove removes the item at a place.
func (h *Heap[T]) Remove(at int) { heap.Remove(&h.items, at) }

// Fix is called once the order of the item at a place has changed.
func (h *Heap[T]) Fix(at int) { heap.Fix(&h.items, at) }

// Init is called once the order of any items has changed.
func (h *Heap[T]) Init() { heap.Init(&h.items) }

// items implements heap.Interface.
type items[T Item[T]] []T

func (s items[T]) Len() int           { return len(s) }
func (s items[T]) Less(i, j int) bool { return s[i].Before(s[j]) }
func (s items[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].Placed(i)
	s[j].Placed(j)
}

func (s *items[T]) Push(x any) {
	x.(T).Placed(len(*s))
	*s = append(*s, x.(T))
}

func (s *items[T]) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	clear((*s)[last:])
	*s = (*s)[:last]
	x.Placed(-1)
	return x
}
