package journal

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A row that waits because Bigtable asks for less is not late: its entries are not appended to
// other streams, which would wait as well, and ask for more.
func TestOverloadIsNotHedged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &table{}
		var mu sync.Mutex
		sent := 0
		until := time.Now()
		b.answer = func(_ context.Context, _ StreamID, seq uint64) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			sent++
			if time.Now().Before(until) {
				return false, status.Error(codes.ResourceExhausted, "slow down")
			}
			return true, nil
		}
		a := newAppender(t, b, nil)
		if err := appendEntry(t.Context(), a, entryOf(1)); err != nil {
			t.Fatal(err)
		}
		quiet := a.store.Count.Hedges.Load()
		before := len(b.rows)
		until = time.Now().Add(8 * time.Second)
		var all sync.WaitGroup
		const entries = 50
		for ts := 2; ts < 2+entries; ts++ {
			all.Go(func() {
				if err := appendEntry(t.Context(), a, entryOf(ts)); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		b.mu.Lock()
		rows := len(b.rows) - before
		b.mu.Unlock()
		if n := a.store.Count.Hedges.Load() - quiet; n > 0 {
			t.Errorf("%d rows for %d entries, %d rows were appended again elsewhere; %d requests", rows, entries, n, sent)
		}
	})
}
