package tso

import (
	"context"
	"fmt"
	"sync"

	"github.com/gopercolator/percolator/internal/planted"
)

// memoryStore keeps the record in this process.
type memoryStore struct {
	mu       sync.Mutex
	state    State
	sessions map[string]struct{}
}

// NewMemoryStore returns a store that lives as long as the process. It is for tests:
// an oracle that starts again from an empty memory store knows nothing of the
// timestamps that were served before.
func NewMemoryStore() Store { return &memoryStore{} }

func (s *memoryStore) Load(ctx context.Context) (State, error) {
	if err := ctx.Err(); err != nil {
		return State{}, fmt.Errorf("tso: reading the record: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, nil
}

func (s *memoryStore) CompareAndSwap(ctx context.Context, old, next State) error {
	if err := old.checkStep(next); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("tso: storing record %d: %w", next.Version, err)
	}
	if s.replace(old, next) {
		return nil
	}
	return settle(ctx, s.Load, old, next, errMismatch)
}

func (s *memoryStore) replace(old, next State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != old && !planted.On(planted.UnfencedWrite) {
		return false
	}
	s.state = next
	return true
}
