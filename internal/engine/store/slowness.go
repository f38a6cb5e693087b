package store

import (
	"sync"
	"time"
)

// slowness is how long the slowest of recent requests took. The zero value is ready.
type slowness struct {
	mu      sync.Mutex
	slowest time.Duration
	at      time.Time
}

// forgotten is after how long a slow request counts half.
const forgotten = 10 * time.Second

// Note says how long a request took.
func (s *slowness) Note(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); d >= s.since(now) {
		s.slowest, s.at = d, now
	}
}

// Recent is how long the slowest request took; less and less if none is as slow any more.
func (s *slowness) Recent() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since(time.Now())
}

func (s *slowness) since(now time.Time) time.Duration {
	return s.slowest >> min(62, now.Sub(s.at)/forgotten)
}
