package commit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What happens to a refresh.
const (
	refreshed   = "refreshed"
	lost        = "lost"        // at once, as when a tablet moves
	unanswered  = "unanswered"  // lost, and nobody says so
	answerSlow  = "answer slow" // applied at once, answered after 30 s
	appliedLate = "late"        // applied after 3 s, and not answered
)

// refreshes is a store that holds one lock, in virtual time.
type refreshes struct {
	store.Backend
	mu            sync.Mutex
	plan          []string // what happens to the next ones; then all succeed
	sent          int
	started, dies time.Time
	dead          bool // at some time
}

func (r *refreshes) CheckAndMutate(ctx context.Context, _, _ string, _ store.Query, lock, _ *store.Mutation) (bool, error) {
	r.mu.Lock()
	what := refreshed
	if r.sent++; len(r.plan) > 0 {
		what, r.plan = r.plan[0], r.plan[1:]
	}
	r.mu.Unlock()
	switch what {
	case lost:
		return false, status.Error(codes.Unavailable, what)
	case unanswered:
		<-ctx.Done()
		return false, ctx.Err()
	case answerSlow:
		r.apply(lock)
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
		}
		return false, ctx.Err()
	case appliedLate:
		time.AfterFunc(3*time.Second, func() { r.apply(lock) })
		<-ctx.Done()
		return false, ctx.Err()
	}
	r.apply(lock)
	return true, nil
}

func (r *refreshes) apply(m *store.Mutation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, err := layout.DecodeLock(int64(m.Changes()[0].From)*1000, m.Changes()[0].Value)
	if err != nil {
		panic(err)
	}
	r.dead = r.dead || !time.Now().Before(r.dies)
	r.dies = r.started.Add(l.Placed.Sub(firstTS)).Add(l.TTL)
}

// Two refreshes in a row that are lost, or have no answer, do not cost a commit its lock. Two
// succeed in between: one that lands late sets the lock's time back.
func TestTwoLostRefreshesKeepTheLock(t *testing.T) {
	t.Parallel()
	faults := []string{lost, unanswered, answerSlow, appliedLate}
	for _, first := range faults {
		for _, second := range faults {
			t.Run(fmt.Sprint(first, ", ", second), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					testRefreshes(t, 0, slices.Repeat([]string{first, second, refreshed, refreshed}, 20))
				})
			})
		}
	}
}

// Nor while a store that was slow when the commit began becomes fast again, so that locks which are
// placed now would live less long.
func TestTwoLostRefreshesKeepTheLockOfAStoreThatWasSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		testRefreshes(t, 29*time.Second, slices.Repeat([]string{lost, lost, refreshed, refreshed}, 8))
	})
}

// testRefreshes commits for five minutes, in virtual time, after a request that took so long.
func testRefreshes(t *testing.T, slow time.Duration, plan []string) {
	const ttl = 10 * time.Second
	r := &refreshes{started: time.Now(), plan: plan}
	s := store.New(context.Background(), r, &telemetry.Counters{})
	defer s.Stop()
	s.Trace = telemetry.NewSpans(nil)
	sessions, err := locks.NewSessions(new(layertest.Counter))
	if err != nil {
		t.Fatal(err)
	}
	c := &Committer{Store: s, Config: store.Settings{LockTTL: ttl}, Locks: &locks.Resolver{Sessions: sessions}}
	s.Conditional.Note(slow)
	r.dies = r.started.Add(c.lockTTL())
	cm := &commit{c: c, startTS: firstTS, started: r.started, primary: &Write{Kind: layout.KindPut, Cell: model.Cell{Table: "t", Row: "r", Column: "c"}}}
	stop := cm.keepAlive(context.Background())
	time.Sleep(5 * time.Minute)
	stop()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead || !time.Now().Before(r.dies) || len(r.plan) > 0 {
		t.Errorf("dead: %v, dies in %v, %d of the plan are left after %d refreshes", r.dead, time.Until(r.dies), len(r.plan), r.sent)
	}
}

const firstTS = tso.Timestamp(1 << 30)

// The locks of a slow store live longer: for four requests as slow as the slowest of the last
// seconds, and no longer than a request.
func TestLockTTLFollowsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &refreshes{started: time.Now()}
		s := store.New(context.Background(), r, &telemetry.Counters{})
		defer s.Stop()
		s.Trace = telemetry.NewSpans(nil)
		c := &Committer{Store: s, Config: store.Settings{LockTTL: 10 * time.Second}}
		for _, step := range []struct{ request, pause, ttl time.Duration }{
			{0, 0, 10 * time.Second},
			{2 * time.Second, 0, 10 * time.Second},
			{5 * time.Second, 0, 20 * time.Second},
			{time.Second, 0, 20 * time.Second},
			{0, 10 * time.Second, 10 * time.Second},
			{29 * time.Second, 0, 30 * time.Second},
			{0, time.Minute, 10 * time.Second},
		} {
			if step.request > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), step.request)
				r.plan = []string{unanswered}
				_, _ = s.CheckAndMutate(ctx, "t", "r", store.Query{}, store.NewMutation(0), nil)
				cancel()
			}
			time.Sleep(step.pause)
			if got := c.lockTTL(); got != step.ttl {
				t.Errorf("after a request of %v and %v: %v, want %v", step.request, step.pause, got, step.ttl)
			}
		}
	})
}
