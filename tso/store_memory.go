package tso

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// NewMemoryStore returns a store that lives as long as the process, for tests: an oracle that
// starts again with a new one knows nothing of the timestamps that it served before.
func NewMemoryStore() Store { return newMemory(recordState{}).store() }

// memory is a [record.Backend] in this process.
type memory struct {
	mu       sync.Mutex
	state    recordState
	sessions map[string]struct{}
}

func newMemory(st recordState) *memory { return &memory{state: st, sessions: map[string]struct{}{}} }

func (m *memory) store() Store { return store{&record.Store[Timestamp]{Backend: m, Name: "in memory"}} }

func (m *memory) Read(context.Context) (recordState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, nil
}

func (m *memory) Swap(_ context.Context, old, next recordState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != old {
		return record.ErrMismatch
	}
	m.state = next
	return nil
}

func (m *memory) Remains(ctx context.Context) (found recordState, repair func(context.Context, recordState) error, err error) {
	found, err = m.Read(ctx)
	return found, func(ctx context.Context, next recordState) error { return m.Swap(ctx, found, next) }, err
}

func (m *memory) AddSession(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[id] = struct{}{}
	return nil
}

func (m *memory) RemoveSessions(_ context.Context, ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.sessions, id)
	}
	return nil
}

func (m *memory) Sessions(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.sessions)), nil
}
