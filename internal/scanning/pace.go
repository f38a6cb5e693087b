package scanning

import (
	"math/rand/v2"
	"time"
)

const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
	maxRest  = 30 * time.Second // after a search that took very long
)

// Pace is the pause between two searches of a scanner: short while the workers depend on what it
// finds, doubling while they do not, so that an idle store costs little. Fixed, if positive, is
// always the pause. One goroutine uses it.
type Pace struct {
	Fixed  time.Duration
	Random *rand.Rand

	current time.Duration
}

// Next returns the pause after a search that spent read on reading. hurry: it found something new,
// and there is little else to do.
func (p *Pace) Next(hurry bool, read time.Duration) time.Duration {
	if p.Fixed > 0 {
		return p.Fixed
	}
	switch {
	case hurry || p.current == 0:
		p.current = minPause
	default:
		p.current = min(2*p.current, maxPause)
	}
	// Scanners in step would meet again and again.
	pause := p.current*3/4 + time.Duration(p.Random.Int64N(int64(p.current/2)))
	// Reading takes at most half of a scanner's time when it is needed, and a quarter otherwise. It
	// would starve the runs where clean rows are expensive to pass (the emulator looks at every
	// cell).
	share := read
	if !hurry {
		share = min(3*read, maxRest)
	}
	return max(pause, share)
}

// Reset makes the next pause short again.
func (p *Pace) Reset() { p.current = 0 }
