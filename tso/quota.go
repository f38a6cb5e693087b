package tso

import "sync"

// quota bounds how much of something there is at once: in all, and what one peer has of it, so that
// no peer shuts the others out. See [ServerConfig.PeerShare].
type quota struct {
	most, each int

	mu   sync.Mutex
	used int
	of   map[string]int // by the peer; callers in this process have no share
}

// newQuota returns a quota of most, of which one peer may have share percent, and at least one.
func newQuota(most, share int) *quota {
	each := most/100*share + most%100*share/100
	return &quota{most: most, each: max(each, 1), of: make(map[string]int)}
}

// take reports whether peer may have n more, and counts them if so.
func (q *quota) take(peer string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.most-q.used || peer != "" && n > q.each-q.of[peer] {
		return false
	}
	q.used += n
	if peer != "" {
		q.of[peer] += n
	}
	return true
}

// release gives back n that peer has taken.
func (q *quota) release(peer string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	if peer == "" {
		return
	}
	if q.of[peer] -= n; q.of[peer] == 0 {
		delete(q.of, peer)
	}
}
