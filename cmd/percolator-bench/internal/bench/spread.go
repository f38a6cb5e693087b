package bench

import (
	"math"
	"slices"
	"time"
)

// Spread is how a number of latencies is distributed, in milliseconds.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	CDF   []Point `json:"cdf"` // from the least to the greatest

	Samples []float64 `json:"-"` // all of them, in milliseconds, sorted
}

// Point says which share of the latencies is at most so long.
type Point struct {
	Milliseconds float64 `json:"ms"`
	Share        float64 `json:"share"`
}

// cdfShares are the shares of which a report holds the latency.
var cdfShares = []float64{0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1}

func spreadOf(samples []time.Duration) Spread {
	s := Spread{Count: len(samples)}
	for _, d := range samples {
		s.Samples = append(s.Samples, float64(d)/float64(time.Millisecond))
	}
	slices.Sort(s.Samples)
	if s.Count == 0 {
		return s
	}
	s.P50, s.P90, s.P99, s.Max = s.quantile(0.5), s.quantile(0.9), s.quantile(0.99), s.quantile(1)
	for _, share := range cdfShares {
		s.CDF = append(s.CDF, Point{s.quantile(share), share})
	}
	return s
}

// quantile is the least sample that the share of all does not exceed: the nearest rank.
func (s Spread) quantile(share float64) float64 {
	rank := int(math.Ceil(share * float64(len(s.Samples))))
	return s.Samples[max(rank, 1)-1]
}
