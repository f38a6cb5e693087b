package tso

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso/coordination"
)

// storedSessions returns the ids in a store, sorted.
func storedSessions(t *testing.T, s Store) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ids, err := s.(coordination.SessionStore).Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// faultySessions is a store of sessions in front of which a test puts faults: the ops
// "add", "remove" and "sessions", beside those of faultyStore.
type faultySessions struct {
	*faultyStore
	keeps coordination.SessionStore

	mu    sync.Mutex
	count map[string]int // the calls of each op
}

func newFaultySessions(s Store) *faultySessions {
	return &faultySessions{faultyStore: newFaultyStore(s), keeps: s.(coordination.SessionStore), count: map[string]int{}}
}

func (s *faultySessions) calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.count)
}

// fail injects a fault into some ops.
func (s *faultySessions) fail(f fault, ops ...string) {
	s.inject(func(op string) fault {
		if slices.Contains(ops, op) {
			return f
		}
		return fine
	})
}

// do is op with its fault.
func (s *faultySessions) do(ctx context.Context, op string, f func() error) error {
	s.mu.Lock()
	s.count[op]++
	s.mu.Unlock()
	switch s.next(op) {
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case refused:
		return errStore
	case answerLost:
		return errors.Join(f(), errStore)
	case answerLate:
		return errors.Join(f(), sleep(ctx, lateBy))
	}
	return f()
}

func (s *faultySessions) AddSession(ctx context.Context, id string) error {
	return s.do(ctx, "add", func() error { return s.keeps.AddSession(ctx, id) })
}

func (s *faultySessions) RemoveSessions(ctx context.Context, ids ...string) error {
	return s.do(ctx, "remove", func() error { return s.keeps.RemoveSessions(ctx, ids...) })
}

func (s *faultySessions) Sessions(ctx context.Context) (ids []string, err error) {
	err = s.do(ctx, "sessions", func() error {
		var readErr error
		ids, readErr = s.keeps.Sessions(ctx)
		return readErr
	})
	return ids, err
}

// missingSessions cannot read sessions.
type missingSessions struct {
	*faultySessions
	err   error
	reads atomic.Int64
}

func (s *missingSessions) Sessions(context.Context) ([]string, error) {
	s.reads.Add(1)
	return nil, s.err
}
