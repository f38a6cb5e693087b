package tso_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Blocks and single timestamps of a server whose windows end all the time share none, and each is
// above what was returned before it was asked for (I1, I32).
func TestBlocksAcrossWindows(t *testing.T) {
	t.Parallel()
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Window: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = server.Run(ctx) })

	type block struct {
		first tso.Timestamp
		n     int
	}
	var mu sync.Mutex
	var all []block
	newest := tso.Timestamp(0) // that was returned
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 200 {
				n := 1 + rand.N(1024)
				if rand.N(2) == 0 {
					n = 1
				}
				mu.Lock()
				before := newest
				mu.Unlock()
				first, err := server.NextBlock(ctx, n)
				if err != nil {
					t.Error(err)
					return
				}
				if first <= before {
					t.Errorf("a block begins at %d, and %d was returned before it was asked for", first, before)
				}
				mu.Lock()
				newest = max(newest, first+tso.Timestamp(n-1))
				all = append(all, block{first, n})
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	given := map[tso.Timestamp]bool{}
	for _, b := range all {
		for i := range b.n {
			if ts := b.first + tso.Timestamp(i); given[ts] {
				t.Fatalf("timestamp %d was given twice", ts)
			} else {
				given[ts] = true
			}
		}
	}
}
