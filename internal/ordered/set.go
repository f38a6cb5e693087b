package ordered

import (
	"iter"
	"slices"
	"sort"
)

// Comparer is what a [Set] holds: usually a pointer, whose order does not change while it is there.
type Comparer[T any] interface {
	// Compare is below 0 where the item comes first, and 0 where both are the same.
	Compare(other T) int
}

// Set is items in their order. The zero value is empty. Insert and Delete search by halving, and
// move some hundred items at most.
type Set[T Comparer[T]] struct {
	runs [][]T // each is in order and before the next; none is empty
}

// runLength is how many items a run has at most.
const runLength = 256

// Insert adds an item, in place of the same one.
func (s *Set[T]) Insert(x T) {
	at, i, found := s.find(x)
	switch {
	case found:
		s.runs[at][i] = x
		return
	case len(s.runs) == 0:
		s.runs = [][]T{nil}
	}
	run := slices.Insert(s.runs[at], i, x)
	if s.runs[at] = run; len(run) > runLength {
		half := len(run) / 2
		s.runs = slices.Insert(s.runs, at+1, slices.Clone(run[half:]))
		s.runs[at] = slices.Delete(run, half, len(run))
	}
}

// Delete removes an item, if it is there.
func (s *Set[T]) Delete(x T) {
	at, i, found := s.find(x)
	if !found {
		return
	}
	if s.runs[at] = slices.Delete(s.runs[at], i, i+1); len(s.runs[at]) == 0 {
		s.runs = slices.Delete(s.runs, at, at+1)
	}
}

// Between is the items from one that need not be there up to before another, or in reverse. The set
// must not change meanwhile.
func (s *Set[T]) Between(from, to T, reverse bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		first, i, _ := s.find(from)
		last, j, _ := s.find(to)
		for first < last || first == last && i < j {
			if !reverse {
				if !yield(s.runs[first][i]) {
					return
				}
				if i++; i == len(s.runs[first]) {
					first, i = first+1, 0
				}
				continue
			}
			if j == 0 {
				last--
				j = len(s.runs[last])
			}
			if j--; !yield(s.runs[last][j]) {
				return
			}
		}
	}
}

// find is the run and the place in it where an item is, or would be inserted.
func (s *Set[T]) find(x T) (run, i int, found bool) {
	if len(s.runs) == 0 {
		return 0, 0, false
	}
	last := len(s.runs) - 1
	run = sort.Search(last, func(n int) bool { return s.runs[n][len(s.runs[n])-1].Compare(x) >= 0 })
	i, found = slices.BinarySearchFunc(s.runs[run], x, T.Compare)
	return run, i, found
}
