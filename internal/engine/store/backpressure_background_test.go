package store

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Bulks in the background, such as an import's whose tablet no server has, leave room for the
// mutations of transactions.
func TestBulksInTheBackgroundLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 28 * time.Second
		var all sync.WaitGroup
		defer all.Wait()
		large := mutationsOf(60_000)
		for range 8 {
			all.Go(func() { _ = s.Mutate(InBackground(t.Context()), "t", "r", large) })
		}
		synctest.Wait()
		b.mu.Lock()
		b.takes = time.Millisecond
		b.mu.Unlock()
		started := time.Now()
		if _, err := s.CheckAndMutate(t.Context(), "t", "r", AllLocks(), mutationsOf(2), nil); err != nil || time.Since(started) > time.Second {
			t.Errorf("a commit beside bulks in the background: %v after %v", err, time.Since(started))
		}
	})
}

// What is left of a bulk in the background that gives up waiting is room again.
func TestBulkInTheBackgroundThatGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 5 * time.Second
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _ = s.Mutate(t.Context(), "t", "r", mutationsOf(60_000)) })
		}
		synctest.Wait()
		for range 4 {
			ctx, cancel := context.WithTimeout(InBackground(t.Context()), time.Second)
			defer cancel()
			all.Go(func() { _ = s.Mutate(ctx, "t", "r", mutationsOf(60_000)) })
		}
		all.Wait()
		p := s.Pressure.of(pressed{"t", false})
		if !p.room.TryAcquire(outstandingMost) || !p.behind.TryAcquire(outstandingMost/2) {
			t.Error("nothing is in flight, and there is not all the room")
		}
	})
}
