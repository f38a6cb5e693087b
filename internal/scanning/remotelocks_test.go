package scanning

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// lossyLocks locks, and its answer is lost or out of bounds.
type lossyLocks struct {
	held   map[uint64]string
	answer int
	err    error
}

func (s *lossyLocks) LockRows(_ context.Context, holder string, _ time.Duration, rows []uint64) (int, error) {
	for _, r := range rows {
		s.held[r] = holder
	}
	return s.answer, s.err
}

func (s *lossyLocks) UnlockRows(_ context.Context, holder string, rows []uint64) error {
	for _, r := range rows {
		if s.held[r] == holder {
			delete(s.held, r)
		}
	}
	return nil
}

func TestRemoteLocks(t *testing.T) {
	t.Parallel()
	rows := []model.Pending{{Table: "t", Row: "a"}, {Table: "t", Row: "b"}}
	for name, c := range map[string]struct {
		service *lossyLocks
		want    int
	}{
		"the answer is lost":  {&lossyLocks{err: context.DeadlineExceeded}, 2},
		"more than asked for": {&lossyLocks{answer: 7}, 2},
		"less than nothing":   {&lossyLocks{answer: -1}, 0},
	} {
		c.service.held = map[uint64]string{}
		l := NewRemoteLocks(c.service, nothingLeft, time.Now)
		if n := l.Lock(t.Context(), rows); n != c.want {
			t.Errorf("%s: %d rows", name, n)
		}
		l.Done(t.Context(), rows)
		if len(l.held) != 0 || c.want > 0 && len(c.service.held) != 0 {
			t.Errorf("%s: %d rows stay locked", name, len(c.service.held))
		}
	}
}

func nothingLeft(rows []layout.RowID) []bool { return make([]bool, len(rows)) }

// ttlLocks is a service as the oracle is, which counts calls.
type ttlLocks struct {
	mu            sync.Mutex
	held          map[uint64]string
	expires       map[uint64]time.Time
	locks, unlock int
	hangs         int // calls of LockRows that get no answer
}

func newTTLLocks() *ttlLocks {
	return &ttlLocks{held: map[uint64]string{}, expires: map[uint64]time.Time{}}
}

func (s *ttlLocks) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks++
	if s.hangs > 0 {
		s.hangs--
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return 0, ctx.Err()
	}
	for i, r := range rows {
		if by := s.held[r]; by != "" && by != holder && time.Now().Before(s.expires[r]) {
			return i, nil
		}
		s.held[r], s.expires[r] = holder, time.Now().Add(ttl)
	}
	return len(rows), nil
}

func (s *ttlLocks) UnlockRows(_ context.Context, holder string, rows []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlock++
	for _, r := range rows {
		if s.held[r] == holder {
			delete(s.held, r)
		}
	}
	return nil
}

// Rows stay locked until they are finished, however long that takes, and no longer. A worker that
// sends no more requests has none after the time to live.
func TestRemoteLocksAreKeptUntilFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cDone atomic.Bool
		service := newTTLLocks()
		mine := NewRemoteLocks(service, func(rows []layout.RowID) []bool {
			out := make([]bool, len(rows))
			for i, r := range rows {
				out[i] = r.Key == "a" || r.Key == "c" && !cDone.Load()
			}
			return out
		}, time.Now)
		theirs := NewRemoteLocks(service, nothingLeft, time.Now)
		row := func(key string) []model.Pending { return []model.Pending{{Table: "t", Row: key}} }
		locked := func(key string) bool {
			n := theirs.Lock(t.Context(), row(key))
			theirs.Done(t.Context(), row(key))
			return n == 0
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go mine.Run(ctx)

		page := []model.Pending{{Table: "t", Row: "a"}, {Table: "t", Row: "b"}, {Table: "t", Row: "c"}}
		if n := mine.Lock(ctx, page); n != 3 {
			t.Fatalf("%d rows locked", n)
		}
		time.Sleep(time.Minute) // the scanner waits for room
		if !locked("a") || !locked("b") || !locked("c") {
			t.Error("a row of a page that a scanner has in hand was not kept")
		}
		mine.Done(ctx, page)
		if !locked("a") || locked("b") || !locked("c") {
			t.Error("of a page that is queued, what waits is locked, and what is done is not")
		}
		time.Sleep(lockHold - 4*keepEvery)
		if !locked("a") || !locked("c") {
			t.Error("rows that wait were not kept")
		}
		cDone.Store(true)
		time.Sleep(2 * keepEvery)
		if !locked("a") || locked("c") {
			t.Error("a row is locked until it is finished")
		}
		stop()
		time.Sleep(lockTTL)
		if locked("a") {
			t.Error("a row is locked by a worker that sends no more requests")
		}
		mine.Close(ctx)
		if len(mine.held) != 0 {
			t.Errorf("%d rows held after Close", len(mine.held))
		}
		calls := service.locks + service.unlock
		mine.Keep(ctx)
		if n := service.locks + service.unlock - calls; n != 0 {
			t.Errorf("%d calls without a row to keep", n)
		}
	})
}

// Two renewals in a row without an answer do not cost a worker its rows.
func TestRemoteLocksSurviveTwoLostRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newTTLLocks()
		l := NewRemoteLocks(service, nothingLeft, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		go l.Run(ctx)
		if n := l.Lock(ctx, []model.Pending{{Table: "t", Row: "a"}}); n != 1 {
			t.Errorf("%d rows locked", n)
		}
		name, before := hash("t", "a"), time.Time{}
		for range 50 * int(lockTTL/(10*time.Millisecond)) {
			service.mu.Lock()
			if expires := service.expires[name]; expires != before { // it has just been renewed
				before, service.hangs = expires, 2
			}
			left := time.Until(before)
			service.mu.Unlock()
			if left <= 0 {
				t.Error("the lock has expired")
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		time.Sleep(lockTTL) // until no request is under way
	})
}

// TestRemoteLocksEndForRowsThatWaitLong: a worker whose runs hang keeps others off what it has
// found for two times to live at most.
func TestRemoteLocksEndForRowsThatWaitLong(t *testing.T) {
	t.Parallel()
	s := &lossyLocks{held: map[uint64]string{}, answer: 1}
	now := time.Unix(0, 0)
	l := NewRemoteLocks(s, func(rows []layout.RowID) []bool { return []bool{true}[:len(rows)] }, func() time.Time { return now })
	rows := []model.Pending{{Table: "t", Row: "a"}}
	if l.Lock(t.Context(), rows) != 1 {
		t.Fatal("not locked")
	}
	l.Done(t.Context(), rows)
	renewed := now
	for range 60 {
		now = now.Add(time.Second)
		before := len(l.held)
		l.Keep(t.Context())
		if len(l.held) == 1 && before == 1 && l.held[hash("t", "a")].renewed.Equal(now) {
			renewed = now
		}
	}
	if last := renewed.Sub(time.Unix(0, 0)); last < lockRenewal || last > lockHold || len(l.held) != 0 {
		t.Fatalf("renewed for the last time after %v, %d rows held", last, len(l.held))
	}
}
