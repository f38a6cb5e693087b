package history

import (
	"hash/maphash"

	"github.com/gopercolator/percolator/tso"
)

// Snapshots judges what is read at a timestamp again and again, by AsOf and under holds: it must be
// the same at any time. It keeps a hash of each answer.
type Snapshots struct {
	seed     maphash.Seed
	answers  map[tso.Timestamp]map[string]answer
	findings findings
}

type answer struct {
	hash uint64
	by   string
}

// NewSnapshots returns a judge that has seen nothing.
func NewSnapshots() *Snapshots {
	return &Snapshots{seed: maphash.MakeSeed(), answers: map[tso.Timestamp]map[string]answer{}}
}

// Add adds what a reader was answered: what says which cell or range it asked for, and result is
// everything that it got.
func (s *Snapshots) Add(reader string, at tso.Timestamp, what, result string) {
	if s.answers[at] == nil {
		s.answers[at] = map[string]answer{}
	}
	now := answer{maphash.String(s.seed, result), reader}
	before, again := s.answers[at][what]
	switch {
	case !again:
		s.answers[at][what] = now
	case before.hash != now.hash:
		s.findings.add(anomalyUnstable, "%s and %s read %s at %d and got two answers, the later one %.200q", before.by, reader, what, at, result)
	}
}

// Release forgets a snapshot that nobody reads any more.
func (s *Snapshots) Release(at tso.Timestamp) { delete(s.answers, at) }

// Check says which answers differed.
func (s *Snapshots) Check() []Anomaly { return s.findings.sorted() }
