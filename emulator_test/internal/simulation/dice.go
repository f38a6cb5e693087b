package simulation

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// dice decide by a seed and by what they are thrown for, not by the order in which goroutines ask:
// the nth request of a process to a row meets the same fate whenever the run is repeated.
type dice struct {
	seed uint64

	mu     sync.Mutex
	thrown map[string]uint64
}

func newDice(seed uint64) *dice { return &dice{seed: seed, thrown: map[string]uint64{}} }

// next is a source of randomness for the nth occasion that has these names.
func (d *dice) next(names ...string) *rand.Rand {
	name := strings.Join(names, "\x00")
	d.mu.Lock()
	d.thrown[name]++
	n := d.thrown[name]
	d.mu.Unlock()
	return rand.New(rand.NewPCG(d.seed^hash(name), n))
}

// hash is FNV-1a; that of package maphash differs from process to process.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// EpisodeSeed is the seed of an episode of a run.
func EpisodeSeed(run, episode uint64) uint64 { return rand.NewPCG(run, episode).Uint64() }
