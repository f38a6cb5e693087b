package tso

import (
	"context"
	"fmt"
)

// AddSession implements [SessionStore].
func (s *memoryStore) AddSession(ctx context.Context, id string) error {
	if err := checkSessionIDs(id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("tso: storing a session: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = make(map[string]struct{})
	}
	s.sessions[id] = struct{}{}
	return nil
}

// RemoveSessions implements [SessionStore].
func (s *memoryStore) RemoveSessions(ctx context.Context, ids ...string) error {
	if err := checkSessionIDs(ids...); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("tso: removing sessions: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.sessions, id)
	}
	return nil
}

// Sessions implements [SessionStore].
func (s *memoryStore) Sessions(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("tso: reading the sessions: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.sessions))
	for id := range s.sessions {
		if len(ids) == maxStoredSessions {
			break
		}
		ids = append(ids, id)
	}
	return ids, nil
}
