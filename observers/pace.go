package observers

import (
	"math/rand/v2"
	"time"
)

const (
	minScanPause = 50 * time.Millisecond
	maxScanPause = 2 * time.Second
	maxScanRest  = 30 * time.Second // after a search that took very long
)

// pace is the pause between two searches of a scanner: short while the workers depend on what they find, doubling while they
// do not, so that an idle store costs little. With fixed set it is always that.
type pace struct {
	fixed   time.Duration
	current time.Duration
}

// next returns the pause after a search that spent read on reading. hurry: it found something new, and there is little else
// to do.
func (p *pace) next(hurry bool, read time.Duration) time.Duration {
	if p.fixed > 0 {
		return p.fixed
	}
	switch {
	case hurry || p.current == 0:
		p.current = minScanPause
	default:
		p.current = min(2*p.current, maxScanPause)
	}
	// Scanners that fell into step would meet again and again.
	pause := p.current*3/4 + rand.N(p.current/2)
	// Reading may take no more than half of a scanner's time when it is needed, and no more than a quarter when it is not:
	// where clean rows are expensive to pass (the emulator looks at every cell) it would starve the runs.
	share := read
	if !hurry {
		share = min(3*read, maxScanRest)
	}
	return max(pause, share)
}

// reset makes the pauses short again.
func (p *pace) reset() { p.current = 0 }
