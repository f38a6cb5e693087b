package journal

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A shard that does not answer does not keep a client from opening a stream in another one.

func TestAHeaderWithoutAnswerIsHedged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Pointer[byte] // the shard of the first stream
		b := &table{answer: func(ctx context.Context, id StreamID, _ uint64) (bool, error) {
			shard := id[0]
			if down.CompareAndSwap(nil, &shard) || *down.Load() == shard {
				<-ctx.Done()
				return false, status.FromContextError(ctx.Err()).Err()
			}
			return true, nil
		}}
		a := newAppender(t, b, nil)
		for ts := 1; ts <= 3; ts++ {
			started := time.Now()
			err := appendEntry(t.Context(), a, entryOf(ts))
			if took := time.Since(started); err != nil || took > 2*hedgeAfter {
				t.Errorf("entry %d: %v after %v", ts, err, took)
			}
			time.Sleep(2 * lifetime)
		}
	})
}

// An answer that comes while the row is about to be hedged does not cost a slot for good.

func TestAHedgeAfterTheAnswerTakesNothing(t *testing.T) {
	t.Parallel()
	a := newAppender(t, &table{}, nil)
	for ts := 1; ts <= maxStuck+1; ts++ {
		if err := appendEntry(t.Context(), a, entryOf(ts)); err != nil {
			t.Fatal(err)
		}
		a.senders.Wait()
		a.mu.Lock()
		s := a.streams[0]
		a.mu.Unlock()
		answered := true
		a.hedge(s, nil, &answered) // as the timer does that fires while the answer is on its way up
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stuck != 0 {
		t.Errorf("%d streams count as stuck, and none has a row in flight", a.stuck)
	}
}

// What a client knows of its notifications is bounded, and ends with them.
// A session that comes back after a header of another one has failed finds no stream without a
// header, and the ids of streams are read and changed by turns.

func TestASessionThatComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var session atomic.Value
		session.Store("a")
		b := &table{answer: func(_ context.Context, _ StreamID, seq uint64) (bool, error) {
			if time.Sleep(time.Millisecond); session.Load() == "b" && seq == 0 {
				return false, status.Error(codes.PermissionDenied, "no")
			}
			return true, nil
		}}
		a := newAppender(t, b, func(context.Context) string { return session.Load().(string) })
		for ts, now := range []string{"a", "b", "a", "c"} {
			session.Store(now)
			var all sync.WaitGroup
			for i := range MaxStreams { // each opens a stream while others change theirs
				all.Go(func() {
					if err := appendEntry(t.Context(), a, entryOf(1+10*ts+i)); (err != nil) != (now == "b") {
						t.Errorf("in session %s: %v", now, err)
					}
				})
			}
			all.Wait()
		}
	})
}

// The end of a cell that many transactions have notified does not keep commits waiting: it takes as
// long as they are many, and not the square of that.
