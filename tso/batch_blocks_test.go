package tso

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// Callers that want several timestamps in a row get them, and nobody else gets one of these (I1).
// What no longer fits a part is skipped.
func TestBlocksOfABatch(t *testing.T) {
	t.Parallel()
	type block struct {
		first Timestamp
		n     int
	}
	q := newBatcher()
	q.full = 2 * maxBlock // so that parts fill
	var mu sync.Mutex
	var blocks []block
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 500 {
				n := 1 + rand.N(maxBlock)/(1+rand.N(maxBlock))
				p, position, err := q.join(n)
				if err == nil {
					err = p.wait(t.Context(), position)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				blocks = append(blocks, block{p.first + Timestamp(position), n})
				mu.Unlock()
			}
		})
	}
	ended := make(chan struct{})
	go func() { callers.Wait(); close(ended) }()
	next := Timestamp(1)
	for open := true; open; {
		select {
		case <-q.ready:
		case <-ended:
			open = false
		}
		for _, n := q.take(); n > 0; _, n = q.take() {
			q.answer(next, nil)
			next += Timestamp(n)
		}
	}
	slices.SortFunc(blocks, func(a, b block) int { return int(a.first - b.first) })
	last := Timestamp(0)
	for _, b := range blocks {
		if b.first <= last {
			t.Fatalf("%d timestamps from %d on, and %d belongs to another", b.n, b.first, last)
		}
		last = b.first + Timestamp(b.n) - 1
	}
	if last >= next {
		t.Errorf("%d was handed out, and only those below %d were there", last, next)
	}
}

// A block has a size.
func TestSizesOfBlocks(t *testing.T) {
	t.Parallel()
	s := startServer(t, NewMemoryStore(), ServerConfig{})
	for _, n := range []int{0, -1, maxBlock + 1} {
		if _, err := s.NextBlock(t.Context(), n); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("a block of %d: %v", n, err)
		}
	}
	first, err := s.NextBlock(t.Context(), maxBlock)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := s.Next(t.Context()); err != nil || next < first+maxBlock {
		t.Errorf("%d follows a block from %d on: %v", next, first, err)
	}
}
