package simulated

import (
	"cmp"
	"math"
	"time"
)

// Latency is how long requests take, to the store and back, apart from what disks cost.
type Latency struct {
	Median  time.Duration // 0: 1 ms
	Spread  float64       // of its logarithm; 0: 0.3
	Tail    float64       // how many of all requests take longer than that, up to Longest
	Longest time.Duration // 0: 1 s
}

const latencySteps = 1 << 10

// quantiles are those of the latency without its tail, which is log-normal.
func (l Latency) quantiles() (out [latencySteps]float64) {
	median, spread := float64(cmp.Or(l.Median, time.Millisecond)), cmp.Or(l.Spread, 0.3)
	for i := range out {
		at := (float64(i) + 0.5) / latencySteps
		out[i] = median * math.Exp(spread*math.Sqrt2*math.Erfinv(2*at-1))
	}
	return out
}

// latency is how long a request takes to the store and its answer takes back. No two requests take
// equally long: at one virtual time the scheduler of goroutines would order them.
func (c *Cluster) latency(h hash) (out, back time.Duration) {
	h = h.with(latencyMark)
	all := c.latencies[h&(latencySteps-1)] * (1 + h.float()/64)
	if c.config.Latency.Tail > 0 {
		if at := h.with(latencyMark).float() / c.config.Latency.Tail; at < 1 {
			longest := float64(cmp.Or(c.config.Latency.Longest, time.Second))
			all *= math.Pow(max(longest/all, 1), at)
		}
	}
	share := 0.1 + 0.8*h.with(shareMark).float()
	out = time.Duration(all*share) + 1
	return out, time.Duration(all*(1-share)) + 1
}
