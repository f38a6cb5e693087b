package serve

import "sync"

// Quota bounds how much of something there is at once: in all, and what one peer has of it, so that
// no peer shuts the others out. Its methods may be called concurrently.
type Quota struct {
	Each int // what one peer may have

	most int
	mu   sync.Mutex
	used int
	of   map[string]int // by the peer
}

// NewQuota returns a quota of most, of which one peer may have each.
func NewQuota(most, each int) *Quota {
	return &Quota{Each: each, most: most, of: make(map[string]int)}
}

// NewSharedQuota returns a quota of most, of which one peer may have share percent, and at least
// one.
func NewSharedQuota(most, share int) *Quota {
	return NewQuota(most, max(most/100*share+most%100*share/100, 1))
}

// Take reports whether peer may have n more, and counts them if so. The peer "", a caller in this
// process, has no share.
func (q *Quota) Take(peer string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.most-q.used || peer != "" && n > q.Each-q.of[peer] {
		return false
	}
	q.used += n
	if peer != "" {
		q.of[peer] += n
	}
	return true
}

// Release gives back n that peer has taken.
func (q *Quota) Release(peer string, n int) {
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

// Used is how much is taken.
func (q *Quota) Used() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}
