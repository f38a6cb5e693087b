package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// soakSessions keeps the sessions of a soak's clients, and keeps them badly: sometimes it does not
// answer, and sometimes it says that a session has ended which has not. That must cost transactions
// and nothing else (docs/internals/PROTOCOL.md, "Sessions").
type soakSessions struct {
	counts *faultCounts

	mu     sync.Mutex
	rand   *rand.Rand
	opened int
	ended  map[string]bool
}

const (
	sessionLies   = 0.2  // probability that a session is said to have ended
	sessionSilent = 0.05 // probability of no answer
)

func newSoakSessions(r *rand.Rand, counts *faultCounts) *soakSessions {
	return &soakSessions{counts: counts, rand: r, ended: map[string]bool{}}
}

// beside is o with these sessions.
func (s *soakSessions) beside(o tso.Oracle) tso.Oracle { return oracleWithSessions{o, s} }

type oracleWithSessions struct {
	tso.Oracle
	*soakSessions
}

func (s *soakSessions) OpenSession() (coordination.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return soakSession{fmt.Sprintf("session-%d", s.opened), s}, nil
}

func (s *soakSessions) EndedSessions(_ context.Context, ids ...string) (ended []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rand.Float64() < sessionSilent {
		s.counts.add("sessions unanswered")
		return nil, errors.New("no answer")
	}
	for _, id := range ids {
		lie := s.rand.Float64() < sessionLies
		if lie && !s.ended[id] {
			s.counts.add("session wrongly ended")
		}
		if lie || s.ended[id] {
			ended = append(ended, id)
		}
	}
	return ended, nil
}

// soakSession ends when its client is closed, which of a client that has crashed happens a while
// after the crash.
type soakSession struct {
	id string
	s  *soakSessions
}

func (x soakSession) ID() string { return x.id }

func (x soakSession) Close(context.Context) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.ended[x.id] = true
	return nil
}
