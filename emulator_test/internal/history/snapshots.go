package history

import (
	"hash/maphash"
	"sync"

	"github.com/gopercolator/percolator/tso"
)

// Snapshots judges what is read at a timestamp again and again, by AsOf and under holds: it must be
// the same at any time while the snapshot is kept. It remembers a hash of each answer, of kept
// snapshots only. Its methods may be called concurrently.
type Snapshots struct {
	seed  maphash.Seed
	found func(Anomaly)

	mu   sync.Mutex
	kept map[tso.Timestamp]*keptSnapshot
}

type keptSnapshot struct {
	keepers int
	answers map[string]answer
}

type answer struct {
	hash uint64
	by   string
}

// NewSnapshots returns a judge that has seen nothing, and calls found with what must not be.
func NewSnapshots(found func(Anomaly)) *Snapshots {
	return &Snapshots{seed: maphash.MakeSeed(), found: found, kept: map[tso.Timestamp]*keptSnapshot{}}
}

// Keep remembers from now on what is read at a timestamp, until Release is called as often as Keep.
func (s *Snapshots) Keep(at tso.Timestamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[at] == nil {
		s.kept[at] = &keptSnapshot{answers: map[string]answer{}}
	}
	s.kept[at].keepers++
}

// Release forgets a snapshot when no one keeps it any more.
func (s *Snapshots) Release(at tso.Timestamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[at]
	if k == nil {
		return
	}
	if k.keepers--; k.keepers == 0 {
		delete(s.kept, at)
	}
}

// Add adds what a reader was answered: what says which cell or range it asked for, and result is
// everything that it got.
func (s *Snapshots) Add(reader string, at tso.Timestamp, what string, result []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[at]
	if k == nil {
		return
	}
	now := answer{maphash.Bytes(s.seed, result), reader}
	before, again := k.answers[what]
	switch {
	case !again:
		k.answers[what] = now
	case before.hash != now.hash:
		var f findings
		f.add(anomalyUnstable, "%s and %s read %s at %d and got two answers, the later one %.200q", before.by, reader, what, at, result)
		s.found(f.all[0])
	}
}
